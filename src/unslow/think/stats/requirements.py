"""Conditions that a benchmark must meet, for a gate: `decode >= 0.7 * expected`, `ttft < 2 s and p95 <= 50 ms`.

The median decides. Where its interval holds the bound, another run could well decide otherwise, and the reason says
so. What can't be told never passes: the gate is then neither met nor missed, and whoever runs it must not take it for
met.
"""

import re
from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Literal, NamedTuple

from unslow.facts import bench as metrics
from unslow.facts.bench import GAPS, LOWER_IS_BETTER, Bench, Requirement
from unslow.facts.errors import UserError

LONGEST = 200
_LARGEST = 1e9
EXAMPLES = (
    "examples: decode >= 0.7 * expected; decode >= 95% of last; prefill > 500 tok/s; ttft < 2 s; "
    "p95 <= 50 ms; decode >= 40 and ttft < 1 s"
)
METRICS = {
    "decode": metrics.DECODE,
    "prefill": metrics.PREFILL,
    "ttft": metrics.FIRST,
    "p50": GAPS[0],
    "p95": GAPS[1],
    "p99": GAPS[2],
    "load": metrics.LOAD,
    "client_decode": metrics.CLIENT_DECODE,
    "decode_at_4k": metrics.DECODE_AT_4K,
    "together": metrics.TOGETHER,
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

_SIGNS: dict[str, Callable[[float, float], bool]] = {">=": ge, ">": gt, "<=": le, "<": lt}
Reference = Literal["", "expected", "last"]


class Clause(NamedTuple):
    """A figure, which side of its bound it must be on, and the bound: a number, or a share of another figure."""

    metric: str
    sign: Literal[">=", ">", "<=", "<"]
    factor: float
    of: Reference = ""


class Condition(NamedTuple):
    """What was asked, in the user's words, and what it means; every clause must hold."""

    asked: str
    clauses: tuple[Clause, ...]


def parse_requirement(text: str) -> Condition:
    """The condition that the words mean; UserError with examples where they mean none."""
    if len(text) > LONGEST or not text.strip():
        raise _invalid(text, f"is longer than {LONGEST} characters" if len(text) > LONGEST else "is empty")
    return Condition(text.strip(), tuple(map(_parse_clause, _AND.split(text.strip().lower()))))


def _parse_clause(part: str) -> Clause:
    found = _CLAUSE.fullmatch(part.strip())
    if not found:
        raise _invalid(part, "is not a comparison")
    word, sign, bound = found.groups()
    metric = METRICS.get(word, word)
    if metric not in WORDS:
        raise _invalid(part, f"does not name a figure: choose from {', '.join(METRICS)}")
    factor, of = _parse_bound(bound.strip(), metric, part)
    if factor > _LARGEST:
        raise _invalid(part, "has a bound that is out of range")
    return Clause(metric, {"≥": ">=", "≤": "<="}.get(sign, sign), factor, of)  # type: ignore[arg-type]


def _parse_bound(text: str, metric: str, part: str) -> tuple[float, Reference]:
    if found := _SHARE.fullmatch(text):
        return float(found[1]) / (100 if found[2] else 1), found[3]  # type: ignore[return-value]
    if found := _TURNED.fullmatch(text):
        return float(found[2] or "1") / (100 if found[3] else 1), found[1]  # type: ignore[return-value]
    found = _PLAIN.fullmatch(text)
    if not found:
        raise _invalid(part, "has a bound that is neither a number nor a share of `expected` or `last`")
    unit, is_time = found[2], metric in LOWER_IS_BETTER
    if unit and unit not in (_SECONDS if is_time else _RATES):
        raise _invalid(part, f"has the unit {unit!r}, but {WORDS[metric]} is in {'s or ms' if is_time else 'tok/s'}")
    if not unit and metric in GAPS:
        raise _invalid(part, "has a time without a unit: add ms or s")
    return float(found[1]) * (_SECONDS[unit or "s"] if is_time else 1.0), ""


def _invalid(text: str, why: str) -> UserError:
    return UserError(f"--require {text[:60]!r} {why}", EXAMPLES)


def judge_requirement(condition: Condition, bench: Bench, last: Bench | None = None) -> Requirement:
    """Whether the benchmark meets the condition; `last` is the benchmark before, where the condition speaks of it."""
    verdicts = [_judge_clause(clause, bench, last) for clause in condition.clauses]
    outcomes = [holds for holds, _ in verdicts]
    holds = False if False in outcomes else None if None in outcomes else True
    return Requirement(asked=condition.asked, holds=holds, because="; ".join(because for _, because in verdicts))


def _judge_clause(clause: Clause, bench: Bench, last: Bench | None) -> tuple[bool | None, str]:
    word, spread = WORDS[clause.metric], bench.figures.get(clause.metric)
    if spread is None:
        return None, f"{word} was not measured"
    reference = _reference(clause, bench, last)
    if isinstance(reference, str):
        return None, f"{word} is {_value_words(clause.metric, spread.median)}, but {reference}"
    shown, bound = _value_words(clause.metric, spread.median), clause.factor * reference
    asked = _value_words(clause.metric, bound)
    if clause.of:
        whose = {"expected": "expected", "last": "last time"}[clause.of]
        asked = f"{clause.factor:g} × {_number(clause.metric, reference)} {whose} = {asked}"
    measured, doubt = "measured once", ""
    if spread.count > 1:
        low, high = _number(clause.metric, spread.low), _number(clause.metric, spread.high)
        measured = f"measured ({low} to {high} in {spread.count} repeats)"
        if spread.low <= bound <= spread.high:
            doubt = "; the bound is within noise, so another run may differ"
    said = f"{word}: {shown} {measured}, required {clause.sign} {asked}{doubt}"
    return _SIGNS[clause.sign](spread.median, bound), said


def _reference(clause: Clause, bench: Bench, last: Bench | None) -> float | str:
    if not clause.of:
        return 1.0
    if clause.of == "expected":
        return bench.expected.get(clause.metric) or "no expected value is known"
    if last is None:
        return "there is no earlier benchmark of the same model and runtime"
    spread = last.figures.get(clause.metric)
    return spread.median if spread else f"the earlier benchmark {last.id} did not measure it"


def _number(metric: str, value: float) -> str:
    if metric not in LOWER_IS_BETTER:
        return f"{value:.1f}"
    return f"{value * 1e3:.1f}" if metric in GAPS else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"  # noqa: PLR2004


def _value_words(metric: str, value: float) -> str:
    unit = "tok/s" if metric not in LOWER_IS_BETTER else "ms" if metric in GAPS else "s"
    return f"{_number(metric, value)} {unit}"
