"""Conditions that a benchmark must meet, for a gate: `decode >= 0.7 * expected`, `ttft < 2 s and p95 <= 50 ms`.

The median decides. Where its interval holds the bound, another run could well decide otherwise, and the reason says so.
What can't be told never passes: the gate is then neither met nor missed, and whoever runs it must not take it for met.
"""

from unslow.facts.bench import GAPS, LOWER_IS_BETTER, Bench, Requirement, Spread
from unslow.think.bench.clauses import WORDS, Clause, Condition, parse_requirement

__all__ = ["Condition", "judged", "parse_requirement"]


def judged(condition: Condition, bench: Bench, last: Bench | None = None) -> Requirement:
    """Whether the benchmark meets the condition; `last` is the benchmark before, where the condition speaks of it."""
    verdicts = [_judged(clause, bench, last) for clause in condition.clauses]
    outcomes = [holds for holds, _ in verdicts]
    holds = False if False in outcomes else None if None in outcomes else True
    return Requirement(asked=condition.asked, holds=holds, because="; ".join(because for _, because in verdicts))


def _judged(clause: Clause, bench: Bench, last: Bench | None) -> tuple[bool | None, str]:
    word, spread = WORDS[clause.metric], bench.figures.get(clause.metric)
    if spread is None:
        return None, f"{word} was not measured"
    reference = _reference(clause, bench, last)
    if isinstance(reference, str):
        return None, f"{word} is {_shown(clause.metric, spread.median)}, but {reference}"
    bound = clause.factor * reference
    holds = clause.met(spread.median, bound)
    said = f"{_shown(clause.metric, spread.median)} {_range(clause.metric, spread)}, {_bound_words(clause, reference)}"
    return holds, f"{word}: {said}{_doubt(spread, bound)}"


def _reference(clause: Clause, bench: Bench, last: Bench | None) -> float | str:
    """What the factor multiplies, or why it is not known."""
    if not clause.of:
        return 1.0
    if clause.of == "expected":
        return bench.expected.get(clause.metric) or "what to expect of it is not known here"
    if last is None:
        return "there is no earlier benchmark of the same model and runtime"
    spread = last.figures.get(clause.metric)
    return spread.median if spread else f"the earlier benchmark {last.id} did not measure it"


def _bound_words(clause: Clause, reference: float) -> str:
    bound = _shown(clause.metric, clause.factor * reference)
    if not clause.of:
        return f"asked for {clause.sign} {bound}"
    whose = {"expected": "expected", "last": "last time"}[clause.of]
    return f"asked for {clause.sign} {clause.factor:g} × {_number(clause.metric, reference)} {whose} = {bound}"


def _range(metric: str, spread: Spread) -> str:
    if spread.count == 1:
        return "measured once"
    return f"measured ({_number(metric, spread.low)} to {_number(metric, spread.high)} in {spread.count} repeats)"


def _doubt(spread: Spread, bound: float) -> str:
    """How sure that is."""
    if spread.count > 1 and spread.low <= bound <= spread.high:
        return "; the bound is within the noise, so another run may decide otherwise"
    return ""


def _number(metric: str, value: float) -> str:
    if metric not in LOWER_IS_BETTER:
        return f"{value:.1f}"
    return f"{value * 1e3:.1f}" if metric in GAPS else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"  # noqa: PLR2004


def _shown(metric: str, value: float) -> str:
    unit = "tok/s" if metric not in LOWER_IS_BETTER else "ms" if metric in GAPS else "s"
    return f"{_number(metric, value)} {unit}"
