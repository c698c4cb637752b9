"""The time of a token and of a prompt token of a case, from physics or from a calibration that still holds."""

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

from unslow.catalog.learned_speed import learned_speed, spread_of
from unslow.facts.calibration import Calibration
from unslow.facts.runtime import SO_FAR
from unslow.facts.snapshot import Case
from unslow.facts.values import Absence, Known, MissingFactError, Unknown
from unslow.think.case.demand import cache_types, plan_of, read_shape
from unslow.think.case.questions import host_lends, prompt_question
from unslow.think.case.runtime import runs_paged
from unslow.think.case.work import (
    COPIES,
    CROSSINGS,
    FETCHES,
    Cure,
    cache_away,
    crossings_s,
    cured_placement,
    depth_of,
    fetched_bytes,
    link_of,
    measured_prompt_tokens,
    with_settings,
    work,
)
from unslow.think.memo import once
from unslow.think.physics.decode import LAUNCHED_ONE_BY_ONE
from unslow.think.physics.links import prompt_copies_s
from unslow.think.physics.placement import Placement, Shape
from unslow.think.physics.terms import Interval, Term, by_part, inverse_interval, least_seconds
from unslow.think.physics.token_time import CROWD, Part, ceiling_tokens_per_s, decode_parts, total_seconds
from unslow.think.speed.calibration import match_calibration
from unslow.think.speed.machine_rates import calibrated_decode, calibrated_prefill, demand_of
from unslow.think.speed.question import USUAL_MICRO_BATCH, SpeedQuestion, host_launch_s, prompt_terms
from unslow.think.speed.rows import PREFILL as PREFILL_GROUP

_NAMES = {
    "weights": "host memory reads",
    "operations": "host layer overhead",
    "rows": "host layer overhead",
    "vocabulary": "sampling",
    "attention": "host attention",
    "experts": "host memory reads",
    "step": "round trip",
}
"""The parts of a calibrated time, as a budget calls them."""


def calibration_of(case: Case) -> Calibration | None:
    """The calibration of this machine, engine and version; None where there is none, or it is stale."""
    return match_calibration(case.calibrations, case.machine, case.runtime, case.taken_at).usable


def calibrated_prompt(case: Case, tokens: float) -> tuple[Interval, list[Part]] | None:
    """The time of one of so many prompt tokens where the CPU does all the work; None where nothing was measured."""
    plan, known = plan_of(case), calibration_of(case)
    if plan is None or known is None:
        return None
    found = calibrated_prefill(demand_of(plan, 1, cache_types(case)), known, max(1, int(tokens)))
    if found is None:
        return None
    each = [part._replace(seconds=part.seconds / tokens) for part in found.parts]
    return Interval(*(seconds / tokens for seconds in found.seconds)), _named(each)


def _named(parts: Iterable[Part]) -> list[Part]:
    """The parts as a budget calls them, those of one name together."""
    named: dict[str, Part] = {}
    for part in parts:
        name = _NAMES[part.name]
        before = named.get(name, Part(name, 0.0, part.spread))
        named[name] = Part(name, before.seconds + part.seconds, max(before.spread, part.spread))
    return list(named.values())


class Prediction(NamedTuple):
    """Seconds for a token, its parts, and what bandwidth alone would allow; of a prompt, arithmetic alone."""

    seconds: Interval
    parts: list[Part]
    ceiling: float
    basis: Literal["calibrated", "catalog"] = "catalog"

    @property
    def tokens_per_s(self) -> Interval:
        """The same as a rate; nothing beats the bandwidth."""
        low, mid, high = inverse_interval(self.seconds)
        return Interval(low, mid, min(high, self.ceiling)) if self.ceiling > mid else Interval(low, mid, high)


def is_of_host(part: str) -> bool:
    """Whether a part of the budget is the CPU's work on the model."""
    return part.startswith("host ") or part == CROWD


def host_share(prediction: Prediction) -> float:
    """How much of a token's time the CPU takes with its part of the layers, by physics."""
    total = sum(part.seconds for part in prediction.parts)
    return sum(p.seconds for p in prediction.parts if is_of_host(p.name)) / total if total else 0.0


PREFILL = "prefill_tokens_per_s"  # The metric that is predicted, by the name it has in a report
USUAL_PROMPT = 2048  # Where no long prompt was measured: long enough to fill several micro-batches
_INTEGERS_GAIN = 2.0
"""Matrix units multiply 8-bit integers twice as fast as 16-bit floats, and quantised weights are multiplied so."""


def predict_prefill(case: Case, cure: Cure | None = None) -> Prediction | Unknown:
    """Seconds for each token of a prompt as long as the measured one, or what the prediction lacks."""
    cure = cure or Cure()
    case = with_settings(case, cure)
    tokens = prompt_tokens(case)
    try:
        shape = read_shape(case)
        each, fetched = min(tokens, micro_batch(case)), fetched_bytes(case, cure)
        return _predicted_prefill(case, shape, cured_placement(case, shape, cure), tokens, each, fetched)
    except MissingFactError as error:
        return error.unknown


def prompt_tokens(case: Case) -> float:
    """How long a prompt is asked about: as long as the one that was measured, or as those that were watched.

    Short ones of several requests are computed together, so they take no longer than usual ones.
    """
    # How long prompts of others are by how far into the context their answers come; 0 where nobody watched
    watched = float(case.run.depth_tokens.value_or(0)) if isinstance(case.run.traffic, Known) else 0.0
    return measured_prompt_tokens(case) or max(float(USUAL_PROMPT), watched)


def micro_batch(case: Case) -> float:
    """How many tokens of a prompt are computed at once; a batch that is smaller than a micro-batch cuts it."""
    runtime = case.runtime
    micro = runtime.ubatch.value_or(0) or runtime.max_batched_tokens.value_or(0) or USUAL_MICRO_BATCH
    return float(min(micro, runtime.batch.value_or(0) or micro))


@once
def _predicted_prefill(
    case: Case, shape: Shape, placement: Placement, tokens: float, each: float, fetched: float
) -> Prediction:
    """Of a prompt of which so many tokens are computed at once, and for each part so many bytes of weights fetched."""
    question = prompt_question(case, shape, placement, each)
    # What GPUs take, with the weights that the host lends them, or what both take one after the other
    lent = question.host is None or question.totals is None or host_lends(case, each)
    apart = (question,) if lent else (question._replace(host=None), question._replace(totals=None))
    terms = [term for part in apart for term in prompt_terms(part, tokens, each) if term.seconds]
    ceiling = _ceiling(question, terms)
    known = calibrated_prompt(case, tokens) if question.totals is None else None
    if known:
        return Prediction(*known, ceiling, "calibrated")
    spread = spread_of(PREFILL_GROUP, question.setting.backend)
    either_way, priced = math.sqrt(spread.high / spread.low), by_part(terms, learned_speed().factors)
    parts = [Part(name, float(seconds), either_way) for name, seconds in priced.items()]
    launches = host_launch_s(question) if not question.setting.graphs else None
    parts += [] if launches is None else [Part(LAUNCHED_ONE_BY_ONE, float(launches) / each, 2.0)]
    # Copies of the cache and crossings, which all tokens of a micro-batch share
    beside = (
        Part(COPIES, prompt_copies_s(cache_away(shape, placement), tokens, each, link_of(case)), 2.0),
        Part(CROSSINGS, crossings_s(case, shape, placement) / each, 2.0),
        Part(FETCHES, fetched / link_of(case) / each, 2.0),
    )
    parts += [part for part in beside if part.seconds > 0]
    total = sum(part.seconds for part in parts)
    # the utilisation of arithmetic differs far more than that of bandwidth, and more often downwards
    return Prediction(Interval(total / spread.high, total, total / spread.low), parts, ceiling)


def _ceiling(question: SpeedQuestion, terms: list[Term]) -> float:
    """What the arithmetic of the GPUs allows, or the reading of weights where that is slower."""
    shortest = float(least_seconds(terms))
    if question.totals is not None:
        parts = [question.totals, *([question.host.totals] if question.host else [])]
        flops = float(question.chip.matrix_flops_per_s) * float(question.gpus) * _INTEGERS_GAIN
        # A product and a sum for each weight that a prompt token meets
        met = ((t.dense_weights - t.output_weights, t.expert_weights * t.experts_used / t.experts) for t in parts)
        shortest = max(shortest, sum(float(2 * (dense + experts)) for dense, experts in met) / flops)
    return 1 / shortest if shortest else 0.0


SLOWEST = 1e-6  # tokens per second: below it, a figure is no speed
DECODE = "decode_tokens_per_s"  # The metric that is predicted, by the name it has in a report


def predict(case: Case, cure: Cure | None = None) -> Prediction | Unknown:
    """The prediction, or what it lacks."""
    return _predicted_decode(case, cure or Cure())


@once
def _predicted_decode(case: Case, cure: Cure) -> Prediction | Unknown:
    try:
        load = work(case, cure)
    except MissingFactError as error:
        return error.unknown
    plan, usable = plan_of(case), calibration_of(case) if case.calibrations else None
    if usable and plan and load.device is None and not load.is_hindered:
        # The CPU does all the work, undisturbed by its own threads
        known = calibrated_decode(demand_of(plan, max(1, int(depth_of(case))), cache_types(case)), usable)
        if known:
            seconds = known.seconds.shifted(sum(part.seconds for part in load.beside))
            parts = [*_named(known.parts), *load.beside]
            return Prediction(seconds, parts, ceiling_tokens_per_s(load), "calibrated")
    # By how much a server of this kind was slower than expected when it was calibrated
    is_scaled = usable and load.device is not None and usable.backend == "gpu"
    scale = usable.scale.factor if usable and is_scaled and usable.scale else 1.0
    parts = [Part(part.name, part.seconds * scale, part.spread) for part in decode_parts(load)]
    if not parts:
        return Unknown("nothing to predict from")
    basis: Literal["calibrated", "catalog"] = "catalog" if scale == 1 else "calibrated"
    return Prediction(total_seconds(parts), parts, ceiling_tokens_per_s(load), basis)


MEASURE = "run `unslow` while the runtime is idle, without --passive"
SHARED_BY = (1.05, 1.5)  # Requests at a time, on average, of which some were alone and some were not


def measured_rate(case: Case) -> Known[float] | Unknown:
    """The speed that was measured, else what the runtime counted of its own work."""
    tried, counted, traffic = case.run.decode_tokens_per_s, case.runtime.decode_tokens_per_s, case.run.traffic
    is_shared = isinstance(traffic, Known) and SHARED_BY[0] < traffic.value.running < SHARED_BY[1]
    # What the server did before it broke is no answer to how fast it is, nor is an average over requests that now and
    # then shared it
    if isinstance(tried, Unknown) and (tried.absence is Absence.FAILED or is_shared):
        return tried
    # A server that answers many at once only counts a mean, and nobody watched how many they are
    is_mean = isinstance(counted, Known) and counted.source.endswith(SO_FAR) and not isinstance(traffic, Known)
    of_many = case.runtime.max_sequences.value_or(2) != 1 and runs_paged(case) is True
    if isinstance(tried, Unknown) and is_mean and of_many:
        return Unknown("its own mean is of all requests so far, and how many shared it at a time is not known", MEASURE)
    for fact in (tried, counted):
        if isinstance(fact, Known) and fact.value > SLOWEST:
            return fact
    if isinstance(tried, Unknown) and tried.absence is not Absence.NOT_LOOKED:
        return tried
    return Unknown("no speed was measured", MEASURE)
