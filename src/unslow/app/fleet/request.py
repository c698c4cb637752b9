"""What a user asks of a fleet, checked."""

from typing import NamedTuple, Self

from unslow.app.fleet.access import access_of
from unslow.app.fleet.durations import seconds_of
from unslow.commands.fleet import FleetRequest as Asked
from unslow.facts.errors import UserError
from unslow.fleet.asking.access import Access
from unslow.fleet.options import Options

SHORTEST_WINDOW_S, LONGEST_WINDOW_S = 60.0, 7 * 86400.0
"""Two scrapes at the usual interval of half a minute; and what a server can still read for thousands of series."""
LONGEST_COMPARE_S = 366 * 86400.0
NO_COMPARISON = "none"


class FleetRequest(NamedTuple):
    """Whom to ask, over which time, and with how many processes to judge; 0 workers is as many as it is worth."""

    access: Access
    options: Options = Options()
    workers: int = 0

    @classmethod
    def of(cls, asked: Asked) -> Self:
        """From the parsed command line; UserError where a value can't be."""
        options, workers = options_of(asked), asked.workers or 0
        return cls(access=access_of(asked), options=options, workers=workers)


def options_of(asked: Asked) -> Options:
    """Which time and which series, checked."""
    window_s = _seconds(asked.window, "--window", Options().window_s)
    if not SHORTEST_WINDOW_S <= window_s <= LONGEST_WINDOW_S:
        raise UserError(f"--window {asked.window} makes no sense", "give 1m to 7d; the default is 15m")
    written = asked.compare
    compare_s = 0.0 if written == NO_COMPARISON else _seconds(written, "--compare", Options().compare_s)
    if compare_s and not window_s <= compare_s <= LONGEST_COMPARE_S:
        hint = f"give a span that is longer than the window, or {NO_COMPARISON}"
        raise UserError(f"--compare {written or '1d'} makes no sense", hint)
    return Options(window_s=window_s, compare_s=compare_s, match=asked.match, engines=asked.engines, join=asked.join)


def _seconds(written: str | None, flag: str, usual: float) -> float:
    return seconds_of(written, flag) if written else usual
