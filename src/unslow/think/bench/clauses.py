"""The words of a condition: `decode >= 0.7 * expected`, `ttft < 2 s and p95 <= 50 ms`."""

import re
from typing import Literal, NamedTuple

from unslow.facts.bench import (
    CLIENT_DECODE,
    DECODE,
    DECODE_AT_4K,
    FIRST,
    GAPS,
    LOAD,
    LOWER_IS_BETTER,
    PREFILL,
    TOGETHER,
)
from unslow.facts.errors import UserError

LONGEST = 200
_LARGEST = 1e9
EXAMPLES = (
    "allowed are such as: decode >= 0.7 * expected; decode >= 95% of last; prefill > 500 tok/s; ttft < 2 s; "
    "p95 <= 50 ms; decode >= 40 and ttft < 1 s"
)
METRICS = {
    "decode": DECODE,
    "prefill": PREFILL,
    "ttft": FIRST,
    "p50": GAPS[0],
    "p95": GAPS[1],
    "p99": GAPS[2],
    "load": LOAD,
    "client_decode": CLIENT_DECODE,
    "decode_at_4k": DECODE_AT_4K,
    "together": TOGETHER,
}
WORDS = {name: word for word, name in METRICS.items()}
_SECONDS = {"ms": 1e-3, "s": 1.0}
_RATES = frozenset({"tok/s", "t/s", "tps", "tokens/s"})
_AND = re.compile(r"(?<!\s)\s+and\s+|(?<!\s)\s*&&\s*")
_CLAUSE = re.compile(r"([a-z_0-9]+)\s*(>=|<=|>|<|≥|≤)\s*(\S.*)")
_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,12})?|\.[0-9]{1,12})"
_OF = r"(expected|last)"
_SHARE = re.compile(rf"{_NUMBER}\s*+(%?)\s*+(?:\*|×|x|of)?\s*+{_OF}")
_TURNED = re.compile(rf"{_OF}(?:\s*[*×]\s*{_NUMBER}\s*(%?))?")
_PLAIN = re.compile(rf"{_NUMBER}\s*([a-z/]*)")

Reference = Literal["", "expected", "last"]


class Clause(NamedTuple):
    """A figure, which side of its bound it must be on, and the bound: a number, or a share of another figure."""

    metric: str
    sign: Literal[">=", ">", "<=", "<"]
    factor: float
    of: Reference = ""

    def met(self, value: float, bound: float) -> bool:
        """Whether a value is on the right side."""
        return {">=": value >= bound, ">": value > bound, "<=": value <= bound, "<": value < bound}[self.sign]


class Condition(NamedTuple):
    """What was asked, in the user's words, and what it means; every clause must hold."""

    asked: str
    clauses: tuple[Clause, ...]


def parse_requirement(text: str) -> Condition:
    """The condition that the words mean; UserError with examples where they mean none."""
    if len(text) > LONGEST:
        raise _nonsense(text, f"is longer than {LONGEST} characters")
    words = text.strip()
    if not words:
        raise _nonsense(text, "is empty")
    return Condition(words, tuple(_clause(part) for part in _AND.split(words.lower())))


def _clause(part: str) -> Clause:
    found = _CLAUSE.fullmatch(part.strip())
    if not found:
        raise _nonsense(part, "is no comparison")
    word, sign, bound = found.groups()
    metric = METRICS.get(word, word)
    if metric not in WORDS:
        raise _nonsense(part, f"names no figure: there are {', '.join(METRICS)}")
    factor, of = _bound(bound.strip(), metric, part)
    if factor > _LARGEST:
        raise _nonsense(part, "has a bound beyond all measure")
    return Clause(metric, {"≥": ">=", "≤": "<="}.get(sign, sign), factor, of)  # type: ignore[arg-type]


def _bound(text: str, metric: str, part: str) -> tuple[float, Reference]:
    if found := _SHARE.fullmatch(text):
        return _share(found[1], found[2]), found[3]  # type: ignore[return-value]
    if found := _TURNED.fullmatch(text):
        return _share(found[2] or "1", found[3]), found[1]  # type: ignore[return-value]
    if found := _PLAIN.fullmatch(text):
        return float(found[1]) * _unit(found[2], metric, part), ""
    raise _nonsense(part, "has a bound that is neither a number nor a share of `expected` or `last`")


def _share(number: str, percent: str | None) -> float:
    return float(number) / (100 if percent else 1)


def _unit(unit: str, metric: str, part: str) -> float:
    """What one of the unit is in SI; UserError where it does not measure such a figure."""
    if metric not in LOWER_IS_BETTER:
        if unit and unit not in _RATES:
            raise _nonsense(part, f"has the unit {unit!r}, and {WORDS[metric]} is in tok/s")
        return 1.0
    if not unit and metric in GAPS:
        raise _nonsense(part, "has a time without a unit: say ms or s")
    if unit and unit not in _SECONDS:
        raise _nonsense(part, f"has the unit {unit!r}, and {WORDS[metric]} is in s or ms")
    return _SECONDS[unit or "s"]


def _nonsense(text: str, why: str) -> UserError:
    return UserError(f"--require {text[:60]!r} {why}", EXAMPLES)
