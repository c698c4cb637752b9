"""Every instance that a Prometheus knows: what each loses and to what, and how many users they can serve."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unslow.app.progress import Progress, Silent
from unslow.think.fleet.capacity_report import CapacityReport
from unslow.think.fleet.report import FleetReport

if TYPE_CHECKING:
    from unslow.app.fleet.request import FleetRequest


def diagnose_fleet(  # noqa: PLR0913 (as many as the command has flags)
    prometheus: str | None = None,
    *,
    window: str = "15m",
    compare: str = "1d",
    match: str = "",
    engines: str = "",
    join: str = "",
    username: str = "",
    password_file: str | Path = "",
    token_file: str | Path = "",
    header: Sequence[str] = (),
    ca_file: str | Path = "",
    cert: str | Path = "",
    key: str | Path = "",
    insecure: bool = False,
    timeout: str = "30s",
    workers: int | None = None,
    progress: Progress | None = None,
) -> FleetReport:
    """What each instance that a Prometheus knows loses, to what, and which are slower than their peers.

    Only the address that is given is asked, and as often for ten instances as for ten thousand. Where an answer was
    not whole, `complete` is False and `statements` say what is missing.

    prometheus: its address; None for that of the variable UNSLOW_PROMETHEUS_URL
    window: the time that is judged, until now
    compare: how long ago it is compared with, or none
    match: only series with these labels, such as cluster="a"
    engines: the same of the engines' series alone
    join: labels that belong together, where the usual ones don't, such as host=machine
    username: for basic authentication
    password_file: the file of its password; without one the variable UNSLOW_PROMETHEUS_PASSWORD
    token_file: the file of a bearer token; without one the variable UNSLOW_PROMETHEUS_TOKEN
    header: lines that are sent with every query, such as X-Scope-OrgID: team-a
    ca_file: certificates of authorities to trust, instead of the system's
    cert: a certificate of our own, where the server asks for one
    key: its key, where that is in a file of its own
    insecure: don't check the server's certificate
    timeout: the most that one query may take
    workers: processes that judge; None for as many as it is worth
    progress: is told what is being done; None for silence
    """
    from unslow.app.fleet.report import fleet_report  # noqa: PLC0415 (imported when used)

    request = _request(
        prometheus=prometheus, window=window, compare=compare, match=match, engines=engines, join=join,
        username=username, password_file=password_file, token_file=token_file, header=header, ca_file=ca_file,
        cert=cert, key=key, insecure=insecure, timeout=timeout, workers=workers,
    )  # fmt: skip
    return fleet_report(request, progress or Silent())


def fleet_capacity(  # noqa: PLR0913 (as many as the command has flags)
    prometheus: str | None = None,
    *,
    goal: str | None = None,
    first_token: str | None = None,
    span: str = "24h",
    match: str = "",
    engines: str = "",
    join: str = "",
    username: str = "",
    password_file: str | Path = "",
    token_file: str | Path = "",
    header: Sequence[str] = (),
    ca_file: str | Path = "",
    cert: str | Path = "",
    key: str | Path = "",
    insecure: bool = False,
    timeout: str = "30s",
    progress: Progress | None = None,
) -> CapacityReport:
    """How many users a fleet can serve at a goal, and what the next GPU buys.

    What was measured and what is simulated beyond it are told apart by `basis`.

    prometheus: its address; None for that of the variable UNSLOW_PROMETHEUS_URL
    goal: what each user must get, such as 30 tok/s; None for 20 tok/s where no first_token is given either
    first_token: the longest that a user may wait for a first token, such as 2s
    span: how far back to measure
    match: only series with these labels, such as cluster="a"
    engines: the same of the engines' series alone
    join: labels that belong together, where the usual ones don't, such as host=machine
    username: for basic authentication
    password_file: the file of its password; without one the variable UNSLOW_PROMETHEUS_PASSWORD
    token_file: the file of a bearer token; without one the variable UNSLOW_PROMETHEUS_TOKEN
    header: lines that are sent with every query, such as X-Scope-OrgID: team-a
    ca_file: certificates of authorities to trust, instead of the system's
    cert: a certificate of our own, where the server asks for one
    key: its key, where that is in a file of its own
    insecure: don't check the server's certificate
    timeout: the most that one query may take
    progress: is told what is being done; None for silence
    """
    from unslow.app.fleet.capacity import capacity_report, goal_of, span_of  # noqa: PLC0415 (imported when used)

    wanted, span_s = goal_of(goal, first_token), span_of(span)
    request = _request(
        prometheus=prometheus, match=match, engines=engines, join=join, username=username, password_file=password_file,
        token_file=token_file, header=header, ca_file=ca_file, cert=cert, key=key, insecure=insecure, timeout=timeout,
    )  # fmt: skip
    return capacity_report(request, wanted, progress or Silent(), span_s)


def _request(**flags: Any) -> "FleetRequest":
    from unslow.app.fleet.request import FleetRequest  # noqa: PLC0415 (imported when used)

    files = ("password_file", "token_file", "ca_file", "cert", "key")
    return FleetRequest.from_flags({name: str(value) if name in files else value for name, value in flags.items()})
