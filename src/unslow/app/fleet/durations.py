"""Spans of time as Prometheus writes them: 15m, 1h30m, 2d."""

import re

from unslow.facts.errors import UserError

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
_WHOLE = re.compile(r"(?:\d{1,9}(?:ms|y|w|d|h|m|s)){1,7}")
_PART = re.compile(r"(\d{1,9})(ms|y|w|d|h|m|s)")
_BARE = re.compile(r"\d{1,9}")


def seconds_of(text: str, flag: str) -> float:
    """The seconds that a span means; a bare number is seconds. UserError names the flag."""
    written = text.strip()
    if _BARE.fullmatch(written):
        return float(written)
    if not _WHOLE.fullmatch(written):
        raise UserError(f"{flag} {text[:40]!r} is no span of time", "write it as Prometheus does: 90s, 15m, 1h30m, 2d")
    return sum(int(count) * _SECONDS[unit] for count, unit in _PART.findall(written))
