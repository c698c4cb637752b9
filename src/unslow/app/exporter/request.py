"""What the user asked of the exporter."""

import os
import re
from typing import NamedTuple

from unslow.app.fleet.durations import seconds_of
from unslow.app.read_target import is_live
from unslow.app.watching.request import Request as WatchRequest
from unslow.commands.exporter import ExporterRequest as Asked
from unslow.facts.errors import UserError
from unslow.look.system.http import is_loopback
from unslow.show._metric_text import Dialect

LEAST_EVERY_S, MOST_EVERY_S = 10.0, 3600.0
"""Between two looks: each reads all processes, and Prometheus itself forgets what it has not seen for five minutes."""
LEAST_MEASURE_S, MOST_MEASURE_S = 600.0, 30 * 86400.0
"""Between two measurements: each takes ten seconds of a server that belongs to somebody."""
ASK_S = 2.0
"""Between two looks at the work of a server; an answer that is seen once is looked at again at once."""
_ADDRESS = re.compile(r"(?:(\[[0-9A-Fa-f:.]{2,45}\]|[\w.-]{1,253}):)?(\d{1,5})")
_LAST_PORT = 65535


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


class ExporterRequest(NamedTuple):
    """What to watch, how often to judge it, whether to measure, and where the metrics go."""

    watch: WatchRequest = WatchRequest(interval_s=ASK_S)
    listen: Address = Address("127.0.0.1", 9877)
    every_s: float = 60.0
    measure_every_s: float | None = None
    once: bool = False
    output: str | None = None
    dialect: Dialect = "openmetrics"

    @classmethod
    def of(cls, asked: Asked) -> "ExporterRequest":
        """The request that was asked for."""
        target, once, output = asked.target, asked.once, asked.output
        if not is_live(target):
            raise UserError(
                f"{target} does not run", f"of what is stored: unslow diagnose {target} --format openmetrics"
            )
        if output and not once:
            raise UserError("-o belongs to --once", "without --once the metrics are served: see --listen")
        if once and asked.measure_every:
            raise UserError("--once measures nothing", "unslow diagnose --format openmetrics measures once")
        key = asked.api_key or os.environ.get("UNSLOW_API_KEY") or ""
        measure = asked.measure_every
        return cls(
            watch=WatchRequest(target, ASK_S, api_key=key),
            listen=parsed_address(asked.listen),
            every_s=_between(asked.every, "--every", LEAST_EVERY_S, MOST_EVERY_S),
            measure_every_s=_between(measure, "--measure-every", LEAST_MEASURE_S, MOST_MEASURE_S) if measure else None,
            once=once,
            output=output,
            dialect=_dialect(asked.format, output),
        )


def parsed_address(text: str) -> Address:
    """Host and port, or a port of loopback alone; UserError where it is neither."""
    match = _ADDRESS.fullmatch(text)
    if not match or int(match[2]) > _LAST_PORT:
        raise UserError(f"--listen {text} is no address", "such as 127.0.0.1:9877; port 0 takes any that is free")
    return Address((match[1] or "127.0.0.1").strip("[]"), int(match[2]))


def _between(text: str, flag: str, least_s: float, most_s: float) -> float:
    seconds = seconds_of(text, flag)
    if not least_s <= seconds <= most_s:
        raise UserError(f"{flag} {text} makes no sense", f"give {least_s:.0f}s to {most_s / 3600:.0f}h")
    return seconds


def _dialect(form: str | None, output: str | None) -> Dialect:
    """As asked; else what the node exporter reads where a file is written."""
    if form not in (None, "openmetrics", "text"):
        raise UserError(f"there is no format {form!r}", "try openmetrics or text")
    if form is None:
        return "text" if output and output != "-" else "openmetrics"
    return "text" if form == "text" else "openmetrics"
