"""The answer to a question about speed: tokens per second with an interval, and what the time is spent on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unslow.catalog.learned_speed import Spread, learned_speed, spread_of
from unslow.think.physics.interval import Interval
from unslow.think.physics.overheads import EAGER, LAUNCHED_ONE_BY_ONE, PLAIN, SERVED, launch_s, overlapped
from unslow.think.physics.terms import Term, by_part, least, total
from unslow.think.speed.question import USUAL_MICRO_BATCH, Question, prompt_terms, step_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unslow.think.physics.numbers import Number


class Outcome(NamedTuple):
    """Of one question: seconds of a step or of a prompt token, by part, and the rate in tokens per second."""

    seconds: float
    parts: dict[str, float]
    rate: Interval
    ceiling: float
    """What bandwidth alone would allow."""


def decode(q: Question, group: str, learned: Mapping[str, float] | None = None) -> Outcome:
    """Tokens per second that all conversations of a step get together."""
    terms, spread = tuple(step_terms(q)), spread_of(group, q.setting.backend)
    launches = host_launch_s(q)
    return _outcome(terms, float(q.tokens), spread, learned, 0.0 if launches is None else float(launches))


def prefill(
    q: Question, tokens: float, micro_batch: float = USUAL_MICRO_BATCH, learned: Mapping[str, float] | None = None
) -> Outcome:
    """Prompt tokens per second."""
    terms = tuple(prompt_terms(q, tokens, micro_batch))
    return _outcome(terms, 1.0, spread_of("prefill", q.setting.backend), learned)


def host_launch_s(q: Question) -> Number | None:
    """What launching takes on the processor, where it is not recorded; None where it is."""
    if q.totals is None or (q.setting.graphs and q.setting.runtime != "transformers"):
        return None
    how = {"transformers": EAGER, "vllm": SERVED}.get(q.setting.runtime, PLAIN)
    return launch_s(how, q.totals.layers, q.totals.expert_layers)


def _outcome(
    terms: Iterable[Term], tokens: float, spread: Spread, learned: Mapping[str, float] | None, launches: float = 0.0
) -> Outcome:
    terms = tuple(terms)
    factors = learned_speed().factors if learned is None else learned
    alone = float(total(terms, factors))
    seconds = float(overlapped(alone, launches)) if launches else alone
    shortest = float(least(terms))
    ceiling = tokens / shortest if shortest else float("inf")
    rate = tokens / seconds
    parts = {name: float(s) for name, s in by_part(terms, factors).items() if s}
    if launches:
        parts[LAUNCHED_ONE_BY_ONE] = seconds - alone
    return Outcome(
        seconds, parts, Interval(rate * spread.low, rate, min(rate * spread.high, max(ceiling, rate))), ceiling
    )


def step_seconds(q: Question, learned: Mapping[str, float] | None = None) -> Number:
    """Seconds of a step; of many questions at once where the numbers are arrays."""
    alone = total(step_terms(q), learned_speed().factors if learned is None else learned)
    launches = host_launch_s(q)
    return alone if launches is None else overlapped(alone, launches)


def prompt_token_seconds(q: Question, tokens: Number, micro_batch: Number = USUAL_MICRO_BATCH) -> Number:
    """Seconds of a prompt token; of many questions at once where the numbers are arrays."""
    return total(prompt_terms(q, tokens, micro_batch), learned_speed().factors)
