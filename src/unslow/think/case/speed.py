"""The speed of a case: measured, predicted, and how far the two are apart."""

import math
import statistics
from collections.abc import Iterable
from functools import cached_property
from typing import Literal, NamedTuple

import msgspec

from unslow.catalog.learned_speed import learned_speed, spread_of
from unslow.facts.calibration import Calibration
from unslow.facts.run import AtDepth
from unslow.facts.runtime import SO_FAR
from unslow.facts.values import Absence, Fact, Known, MissingFactError, Unknown, first_known, not_found
from unslow.think.case.cure import AS_USUAL, Cure
from unslow.think.case.group import Group, if_known, missing, remember
from unslow.think.case.narrative import WORTH_COMPARING
from unslow.think.case.physics import COPIES, CROSSINGS, FETCHES, cache_away
from unslow.think.physics.decode import LAUNCHED_ONE_BY_ONE
from unslow.think.physics.placement import Placement, Shape, prompt_copies_s
from unslow.think.physics.terms import Interval, Term, by_part, inverse_interval, least_seconds
from unslow.think.physics.token_time import CROWD, Part, ceiling_tokens_per_s, decode_parts, total_seconds
from unslow.think.report import Cost
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


PREFILL = "prefill_tokens_per_s"  # The metric that is predicted, by the name it has in a report
USUAL_PROMPT = 2048  # Where no long prompt was measured: long enough to fill several micro-batches
_INTEGERS_GAIN = 2.0
"""Matrix units multiply 8-bit integers twice as fast as 16-bit floats, and quantised weights are multiplied so."""
SLOWEST = 1e-6  # tokens per second: below it, a figure is no speed
DECODE = "decode_tokens_per_s"  # The metric that is predicted, by the name it has in a report
MEASURE = "run `unslow` while the runtime is idle, without --passive"
SHARED_BY = (1.05, 1.5)  # Requests at a time, on average, of which some were alone and some were not
WORTH_NAMING = 1.15  # A gain below this is no reason to call a system slow, nor to touch it


class Turns(NamedTuple):
    """Tokens per second with the samplers as they are set, and without any."""

    as_set: float
    plain: float


SHORT_PROMPT = 256  # A prompt of fewer new tokens tells nothing: starting takes as long as reading it
OWN_SPEED = "{own_speed}"  # What makes the runtime tell its own speed
MOST = 0.5  # Of a token's time: what takes more of it dominates
USUAL_UBATCH = 512  # The default of llama.cpp
NEAR = (0.25, 1.6)  # A measured speed within this of what copying allows is bound by it


class Price(NamedTuple):
    """How much faster prompts would be, and what each of their tokens loses."""

    speedup: float
    lost: Cost


class Copies(NamedTuple):
    """One copy for every micro-batch, beside the speed that was measured, of prompts of so many tokens."""

    copy_s: float
    ubatch: float
    tokens_per_s: float
    prompt_tokens: float = math.inf

    @property
    def is_bound(self) -> bool:
        """Whether the speed is about what copying allows."""
        return NEAR[0] <= self.tokens_per_s * self.copy_s / min(self.ubatch, self.prompt_tokens) <= NEAR[1]

    def price(self, *, faster: float = 1.0, ubatch: float = 0.0) -> Price:
        """What a slow link costs, or too small a micro-batch: of the time that was measured at most all."""
        now_s, then_s = 1 / self.tokens_per_s, self.copy_s / faster / min(ubatch or self.ubatch, self.prompt_tokens)
        # A prompt that is shorter than a micro-batch fills none
        lost_s = max(0.0, min(now_s, self.copy_s / min(self.ubatch, self.prompt_tokens)) - then_s)
        return Price(now_s / max(then_s, now_s - lost_s), Cost(seconds=lost_s, per="prompt_token"))


BEYOND = 1.5
"""Times the fall that physics expects: a ratio of two speeds of one server is free of most of a prediction's error."""
TRY_IT = "run `unslow` while the runtime is idle; or {try_depth}"


class Fall(NamedTuple):
    """The speed at the start of the context and deep in it: as measured, and how far it should fall."""

    shallow: AtDepth
    deep: AtDepth
    expected: float  # Times slower, by physics

    @property
    def measured_fall(self) -> float:
        """Times slower, as it was."""
        return self.shallow.tokens_per_s / self.deep.tokens_per_s

    @property
    def beyond(self) -> float:
        """The measured fall over the expected one."""
        return self.measured_fall / self.expected

    @property
    def words(self) -> str:
        """For a person."""
        speeds = f"{self.shallow.tokens_per_s:.1f} tok/s at {self.shallow.depth_tokens} tokens, "
        return f"{speeds}{self.deep.tokens_per_s:.1f} at {self.deep.depth_tokens}"


class SpeedView(Group):
    """Tokens per second, measured and expected."""

    @cached_property
    def measured_rate(self) -> Known[float] | Unknown:
        """The speed that was measured, else what the runtime counted of its own work."""
        tried, traffic = self.run.decode_tokens_per_s, self.run.traffic
        counted = self.runtime.history.decode_tokens_per_s
        is_shared = isinstance(traffic, Known) and SHARED_BY[0] < traffic.value.running < SHARED_BY[1]
        # What it did before it broke does not say how fast it is, nor a mean over requests that shared it at times
        if isinstance(tried, Unknown) and (tried.absence is Absence.FAILED or is_shared):
            return tried
        # A server that answers many at once only counts a mean, and nobody watched how many they are
        is_mean = isinstance(counted, Known) and counted.source.endswith(SO_FAR) and not isinstance(traffic, Known)
        of_many = self.runtime.scheduling.max_sequences.value_or(2) != 1 and self.case.engine.runs_paged is True
        if isinstance(tried, Unknown) and is_mean and of_many:
            why = "its own mean is of all requests so far, and how many shared it at a time is not known"
            return Unknown(why, MEASURE)
        for fact in (tried, counted):
            if isinstance(fact, Known) and fact.value > SLOWEST:
                return fact
        if isinstance(tried, Unknown) and tried.absence is not Absence.NOT_LOOKED:
            return tried
        return Unknown("no speed was measured", MEASURE)

    @cached_property
    def is_slow(self) -> bool | None:
        """Whether tokens come slower than they should: by physics, else by what a person says; None where unknown."""
        lost = self.shortfall
        if lost is not None:
            return lost > 1
        return True if self.case.narrative.blames("decode") else None

    def need_slowness(self) -> bool:
        """Whether tokens come slower than they should; MissingFactError names what it lacks to tell."""
        slow = self.is_slow
        if slow is not None:
            return slow
        if isinstance(self.measured_rate, Known):
            self.need_prediction()
        self.case.ask_for("run.decode_tokens_per_s", OWN_SPEED)
        return False

    @cached_property
    def shortfall(self) -> float | None:
        """How many times slower than expected; 1 within the interval, None where it is not known."""
        return self.lost_against(AS_USUAL)

    def lost_against(self, cure: Cure) -> float | None:
        """How many times slower than with a cure; 1 where it lies within that interval, None where it is unknown."""
        measured, expected = self.case.sharing.rate_among_others, self.case.sharing.predict_among_others(cure)
        if not isinstance(measured, Known) or not isinstance(expected, Prediction):
            return None
        rate = expected.tokens_per_s
        return 1.0 if measured.value >= rate.low else rate.mid / measured.value

    def times_slower(self, cure: Cure) -> float | None:
        """How many times slower than the middle of what is expected with a cure; None where it is unknown.

        For a cause whose presence was seen: the interval's width, which all settings share, does not speak against it.
        """
        measured, expected = self.case.sharing.rate_among_others, self.case.sharing.predict_among_others(cure)
        if not isinstance(measured, Known) or not isinstance(expected, Prediction):
            return None
        return expected.tokens_per_s.mid / measured.value

    def behaves_as_configured(self, cure: Cure) -> bool:
        """Whether a cure is worth naming by physics, and the measured speed is nearer to that without it than with it.

        Both predictions share their errors, so that their ratio is sharper than either interval.
        """
        now, slower = self.case.sharing.predict_among_others(), self.times_slower(cure)
        then = self.case.sharing.predict_among_others(cure)
        if slower is None or not isinstance(now, Prediction) or not isinstance(then, Prediction):
            return False
        gain = now.seconds.mid / then.seconds.mid
        return gain >= WORTH_NAMING and slower >= math.sqrt(gain)

    def predict(self, cure: Cure | None = None) -> Prediction | Unknown:
        """The prediction, or what it lacks."""
        return self._predicted_decode(cure or Cure())

    def need_prediction(self, cure: Cure | None = None) -> Prediction:
        """What a token should take; MissingFactError names what it lacks to tell."""
        expected = self.predict(cure)
        if isinstance(expected, Unknown):
            raise MissingFactError(expected)
        return expected

    @remember
    def _predicted_decode(self, cure: Cure) -> Prediction | Unknown:
        try:
            load = self.case.physics.work(cure)
        except MissingFactError as error:
            return error.unknown
        plan, usable = self.case.memory.blueprint, self.calibration if self.case.calibrations else None
        is_hindered = load.crowding_s > 0 or load.throttling > 1  # threads outnumber processors, or use up a quota
        if usable and plan and load.device is None and not is_hindered:
            # The CPU does all the work, undisturbed by its own threads
            known = calibrated_decode(demand_of(plan, max(1, int(self.depth)), self.case.memory.cache_types), usable)
            if known:
                seconds = known.seconds.shift(sum(part.seconds for part in load.beside))
                parts = [*_budget_parts(known.parts), *load.beside]
                return Prediction(seconds, parts, ceiling_tokens_per_s(load), "calibrated")
        # By how much a server of this kind was slower than expected when it was calibrated
        is_scaled = usable and load.device is not None and usable.backend == "gpu"
        scale = usable.scale.factor if usable and is_scaled and usable.scale else 1.0
        parts = [Part(part.name, part.seconds * scale, part.spread) for part in decode_parts(load)]
        if not parts:
            return Unknown("nothing to predict from")
        basis: Literal["calibrated", "catalog"] = "catalog" if scale == 1 else "calibrated"
        return Prediction(total_seconds(parts), parts, ceiling_tokens_per_s(load), basis)

    @cached_property
    def calibration(self) -> Calibration | None:
        """The calibration of this machine, engine and version; None where there is none, or it is stale."""
        return match_calibration(self.case.calibrations, self.machine, self.runtime, self.case.taken_at).usable

    @cached_property
    def depth(self) -> float:
        """How far into the context the measurement ran."""
        return self.run.depth_tokens.value_or(0)

    def predict_prefill(self, cure: Cure | None = None) -> Prediction | Unknown:
        """Seconds for each token of a prompt as long as the measured one, or what the prediction lacks."""
        cure = cure or Cure()
        case = self.case.with_cure(cure)
        tokens = case.speed.prompt_tokens
        try:
            shape = case.memory.shape
            each, fetched = min(tokens, case.speed.micro_batch), case.physics.fetched_bytes(cure)
            return case.speed.predict_prefill_of(shape, case.placement.with_cure(shape, cure), tokens, each, fetched)
        except MissingFactError as error:
            return error.unknown

    @remember
    def predict_prefill_of(
        self, shape: Shape, placement: Placement, tokens: float, each: float, fetched: float
    ) -> Prediction:
        """For a prompt computed `each` tokens at a time, with `fetched` bytes of weights copied for each part."""
        question = self.case.physics.prompt_question(shape, placement, each)
        # What GPUs take, with the weights that the host lends them, or what both take one after the other
        lent = question.host is None or question.totals is None or self.case.physics.host_lends_weights(each)
        apart = (question,) if lent else (question._replace(host=None), question._replace(totals=None))
        terms = [term for part in apart for term in prompt_terms(part, tokens, each) if term.seconds]
        ceiling = _ceiling(question, terms)
        known = self._calibrated_prompt(tokens) if question.totals is None else None
        if known:
            return Prediction(*known, ceiling, "calibrated")
        spread = spread_of(PREFILL_GROUP, question.setting.backend)
        either_way, priced = math.sqrt(spread.high / spread.low), by_part(terms, learned_speed().factors)
        parts = [Part(name, float(seconds), either_way) for name, seconds in priced.items()]
        launches = host_launch_s(question) if not question.setting.graphs else None
        parts += [] if launches is None else [Part(LAUNCHED_ONE_BY_ONE, float(launches) / each, 2.0)]
        # Copies of the cache and crossings, which all tokens of a micro-batch share
        link = self.case.physics.link_bytes_per_s
        beside = (
            Part(COPIES, prompt_copies_s(cache_away(shape, placement), tokens, each, link), 2.0),
            Part(CROSSINGS, self.case.physics.crossings_s(shape, placement) / each, 2.0),
            Part(FETCHES, fetched / link / each, 2.0),
        )
        parts += [part for part in beside if part.seconds > 0]
        total = sum(part.seconds for part in parts)
        # the utilisation of arithmetic differs far more than that of bandwidth, and more often downwards
        return Prediction(Interval(total / spread.high, total, total / spread.low), parts, ceiling)

    def _calibrated_prompt(self, tokens: float) -> tuple[Interval, list[Part]] | None:
        """The time of one of so many prompt tokens where the CPU does all the work; None where nothing was measured."""
        plan, known = self.case.memory.blueprint, self.calibration
        if plan is None or known is None:
            return None
        found = calibrated_prefill(demand_of(plan, 1, self.case.memory.cache_types), known, max(1, int(tokens)))
        if found is None:
            return None
        each = [part._replace(seconds=part.seconds / tokens) for part in found.parts]
        return Interval(*(seconds / tokens for seconds in found.seconds)), _budget_parts(each)

    @cached_property
    def prompt_tokens(self) -> float:
        """How long a prompt is asked about: as long as the one that was measured, or as those that were watched.

        Short ones of several requests are computed together, so they take no longer than usual ones.
        """
        # How long prompts of others are by how far into the context their answers come; 0 where nobody watched
        watched = float(self.run.depth_tokens.value_or(0)) if isinstance(self.run.traffic, Known) else 0.0
        return self.measured_prompt_tokens or max(float(USUAL_PROMPT), watched)

    @cached_property
    def micro_batch(self) -> float:
        """How many tokens of a prompt are computed at once; a batch that is smaller than a micro-batch cuts it."""
        compute, at_once = self.runtime.compute, self.runtime.scheduling.max_batched_tokens
        micro = compute.ubatch.value_or(0) or at_once.value_or(0) or USUAL_MICRO_BATCH
        return float(min(micro, compute.batch.value_or(0) or micro))

    @cached_property
    def ubatch_tokens(self) -> int:
        """The micro-batch that is set; llama.cpp's default where neither log nor setting says."""
        return self.runtime.compute.ubatch.value_or(USUAL_UBATCH)

    def larger_ubatch_price(self, copies: Copies, ubatch: int) -> Price:
        """What the smaller micro-batch costs: fewer copies save time, but computing still takes what physics says."""
        price, now_s = copies.price(ubatch=ubatch), 1 / copies.tokens_per_s
        then = self.predict_prefill(Cure(ubatch=ubatch))
        if not isinstance(then, Prediction) or now_s < WORTH_COMPARING * then.seconds.low:
            return price  # prefill is this fast already, so the prediction, as of an unnamed GPU, says nothing
        left_s = then.seconds.low
        lost = msgspec.structs.replace(price.lost, seconds=min(price.lost.seconds, max(0.0, now_s - left_s)))
        return Price(min(price.speedup, max(1.0, now_s / left_s)), lost)

    @cached_property
    def prompt_speed(self) -> Fact[float]:
        """Prompt tokens per second: of the long prompt where one was tried; unknown where all were short."""
        tried = self.run.long_prompt
        if isinstance(tried, Known) and tried.value.tokens >= SHORT_PROMPT and tried.value.seconds > 0:
            return Known(tried.value.tokens / tried.value.seconds, tried.origin, tried.source)
        runs = self.run.completions
        if isinstance(runs, Known) and all(c.prompt_tokens - c.cached_tokens < SHORT_PROMPT for c in runs.value):
            return not_found("only short prompts were measured", "send a prompt of a thousand words or more")
        return first_known(self.run.prefill_tokens_per_s, self.runtime.history.prefill_tokens_per_s)

    @cached_property
    def prompt_fact(self) -> str:
        """The path of the measurement that shows the prefill speed."""
        return "run.long_prompt" if isinstance(self.run.long_prompt, Known) else "run.prefill_tokens_per_s"

    @cached_property
    def measured_prompt_tokens(self) -> float | None:
        """New tokens of the prompts that tell the speed: of the long one that was tried, else of the long ones.

        None where no prompt was long enough, or nobody counted them.
        """
        tried = self.run.long_prompt
        if isinstance(tried, Known) and tried.value.tokens:
            return float(tried.value.tokens)
        new = [c.prompt_tokens - c.cached_tokens for c in self.run.completions.value_or(())]
        long = [tokens for tokens in new if tokens >= SHORT_PROMPT]
        return float(statistics.median(long)) if long else None

    def prompt_copies(self, link_bytes_per_s: float) -> Copies | None:
        """The copies of this case; None where nothing is copied, or where no long prompt was measured."""
        speed = self.prompt_speed
        if not isinstance(speed, Known) or speed.value <= 0 or link_bytes_per_s <= 0:
            return None
        if self.case.placement.cpu_computes is False or not self.runtime.placement.op_offload.value_or(default=True):
            return None
        copied = if_known(lambda: self.case.placement.host_weights_bytes)
        ubatch = self.runtime.compute.ubatch.value_or(0) or USUAL_UBATCH
        tokens = self.measured_prompt_tokens or math.inf
        return Copies(copied / link_bytes_per_s, ubatch, speed.value, tokens) if copied and copied > 0 else None

    def fall_with_depth(self, cure: Cure | None = None) -> Fall:
        """The fall between the first and the last depth, and the one expected with a cure."""
        depths = sorted(self.case.ask_for("run.depths", TRY_IT), key=lambda d: d.depth_tokens)
        if len(depths) < 2 or min(d.tokens_per_s for d in depths) <= 0:  # noqa: PLR2004 (a fall has two ends)
            raise missing("the speed at two depths", TRY_IT)
        ends = depths[0], depths[-1]
        first, last = (self.case.at_depth(end.depth_tokens).speed.need_prediction(cure).seconds.mid for end in ends)
        return Fall(*ends, expected=max(1.0, last / first))

    @cached_property
    def cpu_dominates(self) -> bool | None:
        """Whether most of a token's time is the CPU's; None where nothing tells."""
        expected = self.predict()
        if isinstance(expected, Prediction):
            return host_share(expected) > MOST
        return False if self.case.placement.cpu_computes is False else None

    @cached_property
    def sampling_turns(self) -> Known[Turns] | None:
        """Both speeds of the trial; None where nobody tried.

        With the samplers as set it was timed before as well: where that was faster, timings scatter, and only what
        lies beyond it is the samplers'.
        """
        tried, before = self.run.plain_sampling, self.run.decode_tokens_per_s.value_or(0.0)
        if not isinstance(tried, Known):
            return None
        as_set = max(tried.value.as_set_tokens_per_s, before)
        return Known(Turns(as_set, tried.value.changed_tokens_per_s), tried.origin, tried.source)


def _budget_parts(parts: Iterable[Part]) -> list[Part]:
    """The parts as a budget calls them, those of one name together."""
    named: dict[str, Part] = {}
    for part in parts:
        name = _NAMES[part.name]
        before = named.get(name, Part(name, 0.0, part.spread))
        named[name] = Part(name, before.seconds + part.seconds, max(before.spread, part.spread))
    return list(named.values())


def is_of_host(part: str) -> bool:
    """Whether a part of the budget is the CPU's work on the model."""
    return part.startswith("host ") or part == CROWD


def host_share(prediction: Prediction) -> float:
    """How much of a token's time the CPU takes with its part of the layers, by physics."""
    total = sum(part.seconds for part in prediction.parts)
    return sum(p.seconds for p in prediction.parts if is_of_host(p.name)) / total if total else 0.0


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
