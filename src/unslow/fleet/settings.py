"""What the flags of `unslow fleet` and `unslow exporter` mean, checked."""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple, Self

from unslow.commands.diagnose.target import is_live
from unslow.commands.exporter import ExporterRequest
from unslow.commands.fleet import FleetRequest
from unslow.commands.watch import WatchRequest
from unslow.facts.errors import UserError
from unslow.fleet.openmetrics import Dialect
from unslow.fleet.prometheus.connection import Access, parse_header, read_secret, with_environment
from unslow.fleet.queries import Options
from unslow.look.system.http import is_loopback

ADDRESS = "UNSLOW_PROMETHEUS_URL"
TIMEOUT_S, LONGEST_TIMEOUT_S = 30.0, 3600.0
_WHOLE_S = 300.0  # For all queries together; more where one may take long
SHORTEST_WINDOW_S, LONGEST_WINDOW_S = 60.0, 7 * 86400.0
"""Two scrapes at the usual interval of half a minute; and what a server can still read for thousands of series."""
LONGEST_COMPARE_S = 366 * 86400.0
NO_COMPARISON = "none"
LEAST_EVERY_S, MOST_EVERY_S = 10.0, 3600.0
"""Between two looks: each reads all processes, and Prometheus itself forgets what it has not seen for five minutes."""
LEAST_MEASURE_S, MOST_MEASURE_S = 600.0, 30 * 86400.0
"""Between two measurements: each takes ten seconds of a server that belongs to somebody."""
ASK_S = 2.0  # Between two looks at the work of a server; an answer that is seen once is looked at again at once
_ADDRESS = re.compile(r"(?:(\[[0-9A-Fa-f:.]{2,45}\]|[\w.-]{1,253}):)?(\d{1,5})")
_LAST_PORT = 65535
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
_WHOLE = re.compile(r"(?:\d{1,9}(?:ms|y|w|d|h|m|s)){1,7}")
_PART = re.compile(r"(\d{1,9})(ms|y|w|d|h|m|s)")
_BARE = re.compile(r"\d{1,9}")


class FleetSettings(NamedTuple):
    """Whom to ask, over which time, and with how many processes to judge; 0 workers is as many as it is worth."""

    access: Access
    options: Options = Options()
    workers: int = 0

    @classmethod
    def of(cls, asked: FleetRequest) -> Self:
        """From the parsed command line; UserError where a value can't be."""
        return cls(options=options_of(asked), access=asked_access(asked), workers=asked.workers or 0)


def asked_access(asked: FleetRequest, environment: Mapping[str, str] = os.environ) -> Access:
    """What the flags mean; secrets come from files or the environment, as everybody sees command lines."""
    url = asked.prometheus or environment.get(ADDRESS, "")
    if not url:
        raise UserError("no Prometheus given", f"give --prometheus http://HOST:9090, or set {ADDRESS}")
    timeout_s = seconds_of(asked.timeout, "--timeout") if asked.timeout else TIMEOUT_S
    if not 0 < timeout_s <= LONGEST_TIMEOUT_S:
        raise UserError(f"--timeout must be between 1s and 1h (got {asked.timeout})", "the default is 30s")
    given = Access(
        url=url,
        username=asked.username,
        password=read_secret(asked.password_file),
        bearer=read_secret(asked.token_file),
        headers=tuple(map(parse_header, asked.header)),
        ca_file=asked.ca_file,
        certificate=asked.cert,
        key=asked.key,
        check_certificate=not asked.insecure,
        timeout_s=timeout_s,
        whole_s=max(_WHOLE_S, 4 * timeout_s),
    )
    return with_environment(given, environment)


def options_of(asked: FleetRequest) -> Options:
    """Which time and which series, checked."""
    window_s = seconds_of(asked.window, "--window") if asked.window else Options().window_s
    if not SHORTEST_WINDOW_S <= window_s <= LONGEST_WINDOW_S:
        raise UserError(f"--window must be between 1m and 7d (got {asked.window})", "the default is 15m")
    written, compare_s = asked.compare, Options().compare_s
    if written:
        compare_s = 0.0 if written == NO_COMPARISON else seconds_of(written, "--compare")
    if compare_s and not window_s <= compare_s <= LONGEST_COMPARE_S:
        hint = f"--compare {NO_COMPARISON} switches the comparison off"
        most = f"{LONGEST_COMPARE_S / 86400:.0f}d"
        raise UserError(f"--compare must be between the window and {most} (got {written or '1d'})", hint)
    return Options(window_s=window_s, compare_s=compare_s, match=asked.match, engines=asked.engines, join=asked.join)


class Address(NamedTuple):
    """Where it listens."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this machine can ask."""
        return is_loopback(self.host)

    def url(self, port: int) -> str:
        """The address as a URL, with the port that was got."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{port}"


class ExporterSettings(NamedTuple):
    """What to watch, how often to judge it, whether to measure, and where the metrics go."""

    watch: WatchRequest = WatchRequest(interval=ASK_S)
    listen: Address = Address("127.0.0.1", 9877)
    every_s: float = 60.0
    measure_every_s: float | None = None
    output: str | None = None
    dialect: Dialect = "openmetrics"

    @classmethod
    def of(cls, asked: ExporterRequest) -> "ExporterSettings":
        target, once, output = asked.target, asked.once, asked.output
        if not is_live(target):
            hint = f"for a recording: unslow diagnose {target} --format openmetrics"
            raise UserError(f"{target} is not a live server", hint)
        if output and not once:
            raise UserError("-o needs --once", "without --once the metrics are served: see --listen")
        if once and asked.measure_every:
            hint = "use unslow diagnose --format openmetrics"
            raise UserError("--measure-every cannot be combined with --once", hint)
        form = asked.format
        if form not in (None, "openmetrics", "text"):
            raise UserError(f"unknown format {form!r}", "try openmetrics or text")
        to_file = form is None and output and output != "-"  # the node exporter reads text
        address = _ADDRESS.fullmatch(asked.listen)
        if not address or int(address[2]) > _LAST_PORT:
            hint = "such as 127.0.0.1:9877; port 0 takes a free port"
            raise UserError(f"--listen must be HOST:PORT (got {asked.listen})", hint)
        key = asked.api_key or os.environ.get("UNSLOW_API_KEY")
        measure = asked.measure_every
        return cls(
            watch=WatchRequest(target=target, interval=ASK_S, api_key=key),
            listen=Address((address[1] or "127.0.0.1").strip("[]"), int(address[2])),
            every_s=_between(asked.every, "--every", LEAST_EVERY_S, MOST_EVERY_S),
            measure_every_s=_between(measure, "--measure-every", LEAST_MEASURE_S, MOST_MEASURE_S) if measure else None,
            output=output,
            dialect="text" if form == "text" or to_file else "openmetrics",
        )


def _between(text: str, flag: str, least_s: float, most_s: float) -> float:
    seconds = seconds_of(text, flag)
    if not least_s <= seconds <= most_s:
        raise UserError(f"{flag} must be between {least_s:.0f}s and {most_s / 3600:.0f}h (got {text})")
    return seconds


def seconds_of(text: str, flag: str) -> float:
    """The seconds that a span means; a bare number is seconds. UserError names the flag."""
    written = text.strip()
    if _BARE.fullmatch(written):
        return float(written)
    if not _WHOLE.fullmatch(written):
        raise UserError(f"{flag} must be a duration (got {text[:40]!r})", "as in Prometheus: 90s, 15m, 1h30m, 2d")
    return sum(int(count) * _SECONDS[unit] for count, unit in _PART.findall(written))
