"""The server's clock: all queries are about one moment of it, and a reader is told where ours differs."""

from email.utils import parsedate_to_datetime

MOST_SKEW_S = 5.0
"""Less than a scrape, and more than two synchronized clocks differ: no window of minutes is another for it."""


def parse_date_s(header: str) -> float | None:
    """The moment of a Date header, in seconds of the epoch."""
    try:
        return parsedate_to_datetime(header).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def skew_text(server_s: float, here_s: float, took_s: float) -> str:
    """How far the clocks are apart; nothing where that can't be told from the time that the answer took."""
    ahead_s = server_s - here_s
    if abs(ahead_s) <= MOST_SKEW_S + took_s / 2:
        return ""
    which = "ahead of" if ahead_s > 0 else "behind"
    return f"its clock is {span(abs(ahead_s))} {which} this machine's; the window is taken by its clock"


def span(seconds: float) -> str:
    """A time in one unit that a person would choose."""
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 2 else f"{seconds:.2g} s"  # noqa: PLR2004 (a whole one says enough)
