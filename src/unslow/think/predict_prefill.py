"""The time of a prompt token of a case: as configured, and with cures applied."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from unslow.catalog.learned_speed import learned_speed, spread_of
from unslow.facts.snapshot import Case
from unslow.facts.values import Fact, Known, MissingFactError, Unknown
from unslow.think.adapt.beside import (
    COPIES,
    CROSSINGS,
    FETCHES,
    crossings_s,
    fetched_bytes,
    link_of,
    prompt_cache_copies_s,
)
from unslow.think.adapt.calibrated import calibrated_prompt
from unslow.think.adapt.cure import Cure, with_settings
from unslow.think.adapt.cured_placement import cured_placement
from unslow.think.adapt.prompt_question import host_lends, prompt_question
from unslow.think.adapt.prompt_speed import measured_prompt_tokens, prompt_speed
from unslow.think.adapt.remembered import remembered
from unslow.think.adapt.shape import read_shape
from unslow.think.physics.decode import Part
from unslow.think.physics.interval import Interval
from unslow.think.physics.overheads import LAUNCHED_ONE_BY_ONE
from unslow.think.physics.placement import Placement, Shape
from unslow.think.physics.terms import Term, by_part, least
from unslow.think.prediction import Prediction
from unslow.think.speed.group import PREFILL as GROUP
from unslow.think.speed.outcome import host_launch_s
from unslow.think.speed.question import USUAL_MICRO_BATCH, Question, prompt_terms
from unslow.think.speed.totals import Totals

PREFILL = "prefill_tokens_per_s"
"""The metric that is predicted, by the name it has in a report."""
USUAL_PROMPT = 2048
"""Where no long prompt was measured: long enough to fill several micro-batches."""
_INTEGERS_GAIN = 2.0
"""Matrix units multiply 8-bit integers twice as fast as 16-bit floats, and quantised weights are multiplied so."""


class _Asked(NamedTuple):
    """A prompt, how many of its tokens are computed at once, and where the model lies."""

    case: Case
    shape: Shape
    placement: Placement
    tokens: float
    each: float
    fetched: float = 0.0
    """Bytes of weights that a GPU reads over its link for each part of the prompt."""


def predict_prefill(case: Case, cure: Cure | None = None) -> Prediction | Unknown:
    """Seconds for each token of a prompt as long as the measured one, or what the prediction lacks."""
    cure = cure or Cure()
    case = with_settings(case, cure)
    tokens = prompt_tokens(case)
    try:
        shape = read_shape(case)
        each, fetched = min(tokens, micro_batch(case)), fetched_bytes(case, cure)
        asked = _Asked(case, shape, cured_placement(case, shape, cure), tokens, each, fetched)
        return remembered(case, (PREFILL, asked[1:]), lambda: _predicted(asked))
    except MissingFactError as error:
        return error.unknown


def prompt_tokens(case: Case) -> float:
    """How long a prompt is asked about: as long as the one that was measured, or as those that were watched.

    Short ones of several requests are computed together, so they take no longer than usual ones.
    """
    return measured_prompt_tokens(case) or max(float(USUAL_PROMPT), _watched_prompt_tokens(case))


def _watched_prompt_tokens(case: Case) -> float:
    """How long prompts of others are by how far into the context their answers come; 0 where nobody watched."""
    return float(case.run.depth_tokens.value_or(0)) if isinstance(case.run.traffic, Known) else 0.0


def micro_batch(case: Case) -> float:
    """How many tokens of a prompt are computed at once; a batch that is smaller than a micro-batch cuts it."""
    runtime = case.runtime
    micro = runtime.ubatch.value_or(0) or runtime.max_batched_tokens.value_or(0) or USUAL_MICRO_BATCH
    return float(min(micro, runtime.batch.value_or(0) or micro))


def measured_prefill(case: Case) -> Fact[float]:
    """Prompt tokens per second as measured; unknown where only short prompts were."""
    return prompt_speed(case)


def _predicted(asked: _Asked) -> Prediction:
    question = prompt_question(asked.case, asked.shape, asked.placement, asked.each)
    beside = _beside(asked)
    terms = [term for term in _terms(question, asked) if term.seconds]
    ceiling = _ceiling(question, terms)
    known = calibrated_prompt(asked.case, asked.tokens) if question.totals is None else None
    if known:
        return Prediction(*known, ceiling, "calibrated")
    spread = spread_of(GROUP, question.setting.backend)
    either_way, priced = math.sqrt(spread.high / spread.low), by_part(terms, learned_speed().factors)
    parts = [Part(name, float(seconds), either_way) for name, seconds in priced.items()]
    parts += [*_launches(question, asked), *beside]
    total = sum(part.seconds for part in parts)
    # the utilisation of arithmetic differs far more than that of bandwidth, and more often downwards
    return Prediction(Interval(total / spread.high, total, total / spread.low), parts, ceiling)


def _terms(question: Question, asked: _Asked) -> Iterable[Term]:
    """What GPUs take, with the weights that the host lends them, or what both take one after the other."""
    if question.host is None or question.totals is None or host_lends(asked.case, asked.each):
        return prompt_terms(question, asked.tokens, asked.each)
    apart = (question._replace(host=None), question._replace(totals=None))
    return (term for part in apart for term in prompt_terms(part, asked.tokens, asked.each))


def _beside(asked: _Asked) -> list[Part]:
    """Copies of the cache and crossings, which all tokens of a micro-batch share."""
    case, shape, placement, tokens, each, fetched = asked
    parts = (
        Part(COPIES, prompt_cache_copies_s(case, shape, placement, tokens, each), 2.0),
        Part(CROSSINGS, crossings_s(case, shape, placement) / each, 2.0),
        Part(FETCHES, fetched / link_of(case) / each, 2.0),
    )
    return [part for part in parts if part.seconds > 0]


def _launches(question: Question, asked: _Asked) -> list[Part]:
    launches = host_launch_s(question) if not question.setting.graphs else None
    return [] if launches is None else [Part(LAUNCHED_ONE_BY_ONE, float(launches) / asked.each, 2.0)]


def _ceiling(question: Question, terms: list[Term]) -> float:
    """What the arithmetic of the GPUs allows, or the reading of weights where that is slower."""
    shortest = float(least(terms))
    if question.totals is not None:
        parts = [question.totals, *([question.host.totals] if question.host else [])]
        flops = float(question.chip.matrix_flops_per_s) * float(question.gpus) * _INTEGERS_GAIN
        shortest = max(shortest, sum(map(_products, parts)) / flops)
    return 1 / shortest if shortest else 0.0


def _products(totals: Totals) -> float:
    """Operations that a prompt token takes: a product and a sum for each weight that it meets."""
    met = totals.expert_weights * totals.experts_used / totals.experts
    return float(2 * (totals.dense_weights - totals.output_weights + met))
