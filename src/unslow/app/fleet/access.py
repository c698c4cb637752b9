"""How a Prometheus is reached, from what a command line says."""

import os
from collections.abc import Mapping

from unslow.app.fleet.durations import seconds_of
from unslow.commands.fleet import FleetRequest
from unslow.facts.errors import UserError
from unslow.fleet.asking import access

ADDRESS = "UNSLOW_PROMETHEUS_URL"
TIMEOUT_S, LONGEST_TIMEOUT_S = 30.0, 3600.0
_WHOLE_S = 300.0
"""For all queries together; more where one may take long."""


def access_of(asked: FleetRequest, environment: Mapping[str, str] = os.environ) -> access.Access:
    """What the flags mean; UserError where something of it can't be."""
    url = asked.prometheus or environment.get(ADDRESS, "")
    if not url:
        raise UserError("no Prometheus is named", f"give --prometheus http://HOST:9090, or set {ADDRESS}")
    timeout_s = seconds_of(asked.timeout, "--timeout") if asked.timeout else TIMEOUT_S
    if not 0 < timeout_s <= LONGEST_TIMEOUT_S:
        raise UserError(f"--timeout {asked.timeout} makes no sense", "give 1s to 1h; the default is 30s")
    return access.access_of(
        url,
        username=asked.username,
        password_file=asked.password_file,
        bearer_file=asked.token_file,
        headers=asked.header,
        ca_file=asked.ca_file,
        certificate=asked.cert,
        key=asked.key,
        check_certificate=not asked.insecure,
        timeout_s=timeout_s,
        whole_s=max(_WHOLE_S, 4 * timeout_s),
        environment=environment,
    )
