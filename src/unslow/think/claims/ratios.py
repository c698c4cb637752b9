"""Claims of a ratio as a text has them: 37x faster, twice the speed, 30-50 % less memory."""

import re
from typing import NamedTuple

from unslow.think.claims.amounts import number
from unslow.think.claims.phrases import any_of
from unslow.think.claims.said import Said

_N = r"(?P<low>\d{1,6}(?:,\d{3})?(?:\.\d{1,3})?)(?:\s?(?:-|to)\s?(?P<high>\d{1,6}(?:\.\d{1,3})?))?"
_ABOUT = r"(?:about |around |~)?"
_GAINS = "faster|quicker|speed-?ups?|speed|throughput|performance|improvement|bandwidth|larger|gain|scaling|more|higher"
_LOSSES = "slower|smaller|less|reduction|lower"
_TIMES = re.compile(rf"(?<![\w.]){_N}\s?(?:x|times)[\s-]{{1,2}}(?:\w+\s){{0,2}}?(?P<what>{_GAINS}|{_LOSSES})\b")
_OF = re.compile(rf"\b(?P<what>{_GAINS}|{_LOSSES})(?:\s(?:of|by|is))?\s{_ABOUT}{_N}\s?(?:x|times)\b")
_PERCENT = re.compile(rf"(?<![\w.]){_N}\s?%\s(?P<what>{_GAINS}|{_LOSSES})\b")
_SAVES = re.compile(
    r"\b(?P<what>cuts?|reduc\w+|shrinks?|compress\w*|sav\w+|lowers?|drops?)\b"
    rf"[^.;]{{0,60}}?(?:by\s)?{_ABOUT}{_N}\s?%"
)
_FASTER = r"(?:the |its |your )?(?:speed|throughput|performance|tok\w*)"
_TWICE = any_of("twice (?:as fast|the speed|the throughput|the performance)", rf"doubl\w+ {_FASTER}")
_THRICE = any_of(rf"tripl\w+ {_FASTER}")
_HALF = any_of(r"halv\w+", r"half (?:the|as much|of the|its)?\s?(?:\w+\s)?(?:memory|vram|size|data|footprint|kv)")
_QUARTER = any_of("quarters? (?:the|of the) (?:memory|vram|size|kv)")
_IN_WORDS = ((_TWICE, 2.0, False), (_THRICE, 3.0, False), (_HALF, 0.5, True), (_QUARTER, 0.25, True))
_OF_MEMORY = any_of("memory", "vram", "size", "footprint", "kv", "cache", "data", "smaller")


class Ratio(NamedTuple):
    """How many times as fast, or as large; a range where one is given."""

    low: float
    high: float
    text: str
    start: int
    of_size: bool = False
    of_bandwidth: bool = False


def ratio_said(said: Said) -> Ratio | None:
    """The first ratio of a sentence."""
    for pattern in (_SAVES, _TIMES, _OF, _PERCENT):
        if match := pattern.search(said.rest):
            return _ratio(match, said.rest)
    for pattern, value, of_size in _IN_WORDS:
        if match := pattern.search(said.rest):
            return Ratio(value, value, match[0], match.start(), of_size)
    return None


def _ratio(match: re.Match[str], text: str) -> Ratio:
    low = number(match["low"])
    high = number(match["high"]) if match["high"] else low
    what, saves = match["what"], match.re is _SAVES
    shrinks = saves or bool(re.fullmatch(_LOSSES, what))
    ends = [_as_factor(end, shrinks=shrinks, is_percent=saves or match.re is _PERCENT) for end in (low, high)]
    of_size = saves or (shrinks and what != "slower" and bool(_OF_MEMORY.search(text)))
    return Ratio(min(ends), max(ends), match[0].strip(), match.start(), of_size, what == "bandwidth")


def _as_factor(value: float, *, shrinks: bool, is_percent: bool) -> float:
    """`3x slower` is a third, `30 % less` is 0.7, `30 % faster` is 1.3."""
    if is_percent:
        return max(0.0, 1 - value / 100 if shrinks else 1 + value / 100)
    return 1 / max(value, 1e-9) if shrinks else value
