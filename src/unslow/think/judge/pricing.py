"""What causes cost, alone and together: the measured time, carried through physics, with one cure after the other.

Physics seldom meets the measured time exactly. Half of the difference or more is given to the parts of the prediction,
most to those that are long and least certain; what the threads waited for a CPU, to the CPU's own. A cure then takes
away the parts that it takes away in physics, with what was given to them. A cure of which physics sees nothing is about
the remainder itself: the time falls to what physics expects.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from unslow.facts.values import Known
from unslow.think.case.cure import Cure
from unslow.think.case.physics import COPIES, CROSSINGS, FETCHES, LOGPROBS, SORTING
from unslow.think.case.sharing import OTHERS, PROMPTS
from unslow.think.case.speed import Prediction, is_of_host
from unslow.think.case.telemetry import FULLY_BUSY
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Found
from unslow.think.judge.phases import PER, Outlook, Pace, losing_phases
from unslow.think.physics import decode
from unslow.think.physics.placement import LINK
from unslow.think.physics.token_time import CROWD, QUOTA, SAMPLING, Part
from unslow.think.report import BudgetPart, Cost, Per

DEPTHS = "run.depths"  # The trial of which the speed is not that of the budget
QUICKEST = 0.2  # Of its predicted time, the least that a part can have taken: no part of the catalog is off by more
LASTING = 0.5
"""Of what physics does not explain: at least half is taken to stay with its part, the rest may be of the moment."""
OF_THE_MOMENT = 1.3  # By which factor a measurement may be off what the same machine does at another moment
UNSEEN = 1.03  # A cure that gains no more than this by physics is about what physics does not see


class Price(NamedTuple):
    """What curing a cause saves beside those before it, and how many times as fast it is with it alone cured."""

    cost: Cost | None = None
    speedup: float | None = None


def price_alone(case: CaseView, found: Found, phase: str, outlook: Outlook) -> Price:
    """The price of one cause by itself."""
    together = Together(case, phase, outlook)
    start, cost = together.left, together.save_by(found)
    in_its_time = cost is not None and cost.per == PER.get(phase)  # else what it saves is no part of that time
    faster = start / together.left if start and together.left and in_its_time else None
    return Price(cost, found.speedup or (max(1.0, faster) if faster and cost else None))


class Together:
    """The time of one phase as its causes are cured one after the other: no second is counted twice."""

    def __init__(self, case: CaseView, phase: str, outlook: Outlook) -> None:
        self._case, self._pace, self._per = case, outlook.pace_of(phase), PER.get(phase, "request")
        self._start = self.left = start_s(phase, outlook)
        self._left_deep: float | None = None
        self._told: dict[Per, float] = {}
        self._cures: Cure | None = None
        self._explained = False
        self._least = least_s(case, self._pace) if self._pace else 0.0

    def save_by(self, found: Found) -> Cost | None:
        """What this cure saves beside those before it: as measured, as tried, else by physics; None where none tells.

        What is no part of the requests that were timed stands as it is.
        """
        times, lost = max(1.0, found.speedup or 1.0), found.lost
        depths = [d for d in self._case.run.depths.value_or(()) if d.tokens_per_s > 0]
        if depths and found.speedup and any(e.fact == DEPTHS for e in found.evidence):
            # Of a token deep in the context, of which the speed at the start says nothing: all causes there explain the
            # same fall, and a second only what is left
            deep = max(depths, key=lambda d: d.depth_tokens)
            start = 1 / deep.tokens_per_s
            before = start if self._left_deep is None else self._left_deep
            self._left_deep = min(before, start / times)
            return Cost(seconds=before - self._left_deep, per="token", depth_tokens=deep.depth_tokens)
        if found.apart:
            return lost
        if self.left is None or self._start is None or (lost and lost.per != self._per):
            # What was measured of a time that itself was not: two who tell of it may tell of the same seconds
            if lost is None:
                return None
            before = self._told.get(lost.per, 0.0)
            self._told[lost.per] = max(before, lost.seconds)
            return Cost(seconds=max(0.0, lost.seconds - before), per=lost.per, depth_tokens=lost.depth_tokens)
        left: float | None
        if lost or found.speedup:
            # An experiment may beat physics, but beside other cures it goes no lower than either makes possible
            by_itself, beside = (max(0.0, s - lost.seconds) if lost else s / times for s in (self._start, self.left))
            left = max(beside, min(self._least, by_itself, self.left))
        else:
            left = self._by_cure(found)
        if left is None:
            return None
        saved, self.left = max(0.0, self.left - left), min(self.left, left)
        return Cost(seconds=saved, per=self._per)

    def _by_cure(self, found: Found) -> float | None:
        """By physics; what is no work of the model is gone as a whole."""
        if self._pace is None:
            return 0.0
        if found.cure is None:
            return None
        self._explained |= is_of_the_rest(self._pace, found.cure)
        self._cures = self._cures.and_also(found.cure) if self._cures else found.cure
        then = time_with(self._case, self._pace, self._cures, explained=self._explained)
        return None if then is None else max(then, min(self._least, self.left or 0.0))


def start_s(phase: str, outlook: Outlook) -> float | None:
    """The time that the causes of a phase share: measured, else, of what physics sees, as it is configured."""
    pace, time = outlook.pace_of(phase), outlook.time_of(phase)
    if pace is None:
        return time.seconds if time else None
    return pace.measured_s or (pace.now.seconds.mid if isinstance(pace.now, Prediction) else None)


def time_with(case: CaseView, pace: Pace, cure: Cure, *, explained: bool = False) -> float | None:
    """Seconds with a cure, from the measured time through physics; None where physics lacks something.

    `explained` says that what physics does not see is gone with another cure.
    """
    then = pace.predict(cure)
    if not isinstance(then, Prediction):
        return None
    if pace.measured_s is None or not isinstance(pace.now, Prediction):
        return then.seconds.mid
    if explained or is_of_the_rest(pace, cure):
        return min(pace.measured_s, then.seconds.mid)
    factors = _factors(case, pace.now, pace.measured_s)
    reckoned = sum(part.seconds * factors.get(part.name, 1.0) for part in then.parts)
    summed = sum(part.seconds for part in then.parts)
    # of a calibrated prediction the parts need not sum to the whole
    return min(pace.measured_s, then.seconds.mid * (reckoned / summed if summed else 1.0))


def is_of_the_rest(pace: Pace, cure: Cure) -> bool:
    """Whether a cure is about what physics does not see: who else uses the machine, a clock, a kernel."""
    if cure.alone:
        return True
    then = pace.predict(cure)
    if not isinstance(then, Prediction) or not isinstance(pace.now, Prediction):
        return False
    return pace.now.seconds.mid <= UNSEEN * then.seconds.mid


def least_s(case: CaseView, pace: Pace) -> float:
    """The seconds below which no cure is taken to go: what physics expects with all of them, where it knows."""
    if not isinstance(pace.best, Prediction):
        return 0.0
    # A CPU that is quicker than physics thinks is so with cures as well; beside a GPU the error may be the other's
    quicker = 1.0
    if pace.measured_s and isinstance(pace.now, Prediction) and case.gpus.has_none:
        quicker = min(1.0, pace.measured_s / pace.now.seconds.mid)
    return pace.best.seconds.mid * quicker


def _factors(case: CaseView, now: Prediction, measured_s: float) -> dict[str, float]:
    """How many times as long as predicted each part takes, by what was measured."""
    host = [p for p in now.parts if is_of_host(p.name)]
    waited = case.host.waiting_s(measured_s, now) if host else 0.0
    # What part of the remainder stays: the more, the less sure physics is beside a measurement of the moment
    doubt, moment = math.log(now.seconds.high / now.seconds.low) / 2, math.log(OF_THE_MOMENT)
    left = max(LASTING, doubt**2 / (doubt**2 + moment**2)) * (measured_s - now.seconds.mid - waited)
    hindered = [p for p in now.parts if p.name in (CROWD, QUOTA)]  # they wait for each other, or a period
    waits, doubts = _shares(hindered or host, evenly=True), _shares(now.parts, evenly=False)
    given = {p.name: waited * waits.get(p.name, 0.0) + left * doubts.get(p.name, 0.0) for p in now.parts}
    return {p.name: max(QUICKEST, 1 + given[p.name] / p.seconds) for p in now.parts if p.seconds > 0}


def _shares(parts: list[Part], *, evenly: bool) -> dict[str, float]:
    """What each part gets of a remainder: by its time, and by how uncertain that is."""
    weights = {p.name: p.seconds * (1.0 if evenly else max(p.spread - 1, 1e-6)) for p in parts if p.seconds > 0}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()} if total else {}


READING, SWAPPING, SHARED = "reading weights from disk", "swapping memory in", "another process on the GPU"
UNEXPLAINED, WAITING = "unexplained", "waiting for a CPU"
DETOUR, PREPARING, CLIENT = "connecting to the server", "request setup", "client or network"
SAMPLERS = "samplers, measured"
WHOLE = {"queue": "waiting in the queue", "load": "loading the model"}
"""What a phase is as a whole: nothing in it is left to explain."""
OTHER = "other"  # What a part is called that has none of these names
CALIBRATED = ("weights", "operations", "experts", "rows", "vocabulary", "attention", "step")
"""The parts of a calibrated machine, by the rates that were measured."""
NAMES = frozenset({
    *CALIBRATED,
    decode.COMPUTE, decode.HOST_ATTENTION, decode.HOST_COMPUTE, decode.HOST_LAYERS, decode.HOST_READS,
    decode.LAUNCHED_ONE_BY_ONE, decode.LAUNCHES, LINK, decode.READS, decode.ROUND_TRIP,
    CLIENT, COPIES, CROSSINGS, CROWD, DETOUR, FETCHES, LOGPROBS, OTHERS, PREPARING, PROMPTS, QUOTA, READING,
    SAMPLERS, SAMPLING, SHARED, SORTING, SWAPPING, UNEXPLAINED, WAITING, *WHOLE.values(),
})  # fmt: skip
OF_ANY_WORK = frozenset({"gpu_shared_with_other_work"})  # What slows the reading of prompts just as it slows answers
_ROUNDING = 1e-9  # what sums of floats leave over of a time that is explained whole


def budget(
    case: CaseView, outlook: Outlook, found: Collection[str], beyond_physics: Mapping[str, float]
) -> tuple[BudgetPart, ...]:
    """Every measured phase that costs time, in the order of a request; each sums to what was measured of it.

    `beyond_physics` is what causes take of a token that were found and have no other part, in seconds by name.
    """
    # What the server does not compute; the computed phases have budgets of their own
    outside = list[BudgetPart]()
    for phase, seconds in ((t.phase, t.seconds) for t in losing_phases(outlook.times) if t.phase not in PER):
        if phase in WHOLE:
            named = {PREPARING if phase == "queue" and case.waits.preparing_s == seconds else WHOLE[phase]: seconds}
        else:
            detour = min(seconds, case.waits.detour_s or 0.0)
            named = {DETOUR: detour, CLIENT: seconds - detour if "client_overhead" in found else 0.0}
        outside += _split(phase, [Part(name, s, 1.0) for name, s in named.items() if s], seconds, {})
    prompt, token = outlook.prefill, outlook.decode
    # what else was watched, was watched while tokens were generated
    with_others = dict(found_parts(case, OF_ANY_WORK.intersection(found), prompt).values())
    parts = prompt.now.parts if isinstance(prompt.now, Prediction) else []
    reading = _split("prefill", parts, prompt.measured_s, with_others) if prompt.measured_s else ()
    beyond = {**dict(found_parts(case, found, token).values()), **beyond_physics}
    known = token.now if isinstance(token.now, Prediction) else None
    answering = decode_budget(case, known, token.measured_s, beyond) if token.measured_s else ()
    return (*outside, *reading, *answering)


def decode_budget(
    case: CaseView, prediction: Prediction | None, measured_s: float, beyond: Mapping[str, float]
) -> tuple[BudgetPart, ...]:
    """The measured time of a token, split as physics splits it; where it was faster, all parts shrink together.

    `beyond` is what was found of which physics knows nothing, in seconds by name.
    """
    # beyond what its own threads cost each other by physics, the kernel's count tells whatever else they waited for
    waiting = case.host.waiting_s(measured_s, prediction)
    parts = prediction.parts if prediction else []
    if isinstance(case.run.plain_sampling, Known):  # what samplers take by a trial is more than a sort
        parts = [part._replace(name=SAMPLERS) if part.name == SORTING else part for part in parts]
    return _split("decode", parts, measured_s, {WAITING: waiting, **beyond} if waiting else beyond)


def _split(phase: str, parts: Sequence[Part], measured_s: float, beyond: Mapping[str, float]) -> tuple[BudgetPart, ...]:
    predicted = sum(p.seconds for p in parts)
    scale = min(1.0, measured_s / predicted) if predicted else 0.0
    left, asked = max(0.0, measured_s - predicted * scale), sum(beyond.values())
    fair = min(1.0, left / asked) if asked else 0.0  # threads also wait while a disk reads: nothing is counted twice
    split = [(p.name, p.seconds * scale) for p in parts]
    split += [(name, seconds * fair) for name, seconds in beyond.items()]
    rest = left - asked * fair
    split.append((UNEXPLAINED, rest if rest > _ROUNDING * measured_s else 0.0))
    longest_first, per = sorted(split, key=lambda part: -part[1]), PER.get(phase, "request")
    return tuple(BudgetPart(phase=phase, part=name, seconds=seconds, per=per) for name, seconds in longest_first)


def found_parts(case: CaseView, found: Collection[str], pace: Pace) -> dict[str, tuple[str, float]]:
    """By cause: the name of its part, and its seconds of a token by itself; none where nothing tells.

    Physics has no part for these causes: it reckons with weights that stay in memory, and with a GPU that nobody else
    uses. Only what physics leaves unexplained is theirs, and never a cause's that was not found.
    """
    if not pace.measured_s or not isinstance(pace.now, Prediction):
        return {}
    left = max(0.0, pace.measured_s - pace.now.seconds.mid)
    told: dict[str, tuple[str, Callable[[CaseView], float | None]]] = {
        "weights_streamed_from_disk": (READING, _reading),
        "swapping": (SWAPPING, _swapping),
        "gpu_shared_with_other_work": (SHARED, _share_of_others),
    }
    shares = {cause: (name, share(case)) for cause, (name, share) in told.items() if cause in found}
    seconds = {cause: (name, min(left, s * pace.measured_s)) for cause, (name, s) in shares.items() if s}
    return {cause: part for cause, part in seconds.items() if part[1] > 0}


def _reading(case: CaseView) -> float | None:
    """The share of the time in which the disk gives weights: what it gave on average over the most it was seen give."""
    seen = case.telemetry.host_at_work
    read, back = seen("disk_read_bytes_per_s"), seen("swap_in_bytes_per_s")
    if read is None or read.high <= 0:
        return None
    return max(0.0, read.mean - (back.mean if back else 0.0)) / read.high


def _swapping(case: CaseView) -> float | None:
    back = case.telemetry.host_at_work("swap_in_bytes_per_s")
    return back.mean / back.high if back and back.high > 0 else None


def _share_of_others(case: CaseView) -> float | None:
    """All that is left where the GPU never pauses, else the share of the time that kernels of others run.

    The driver counts a process in few and coarse samples: 9 % of a GPU that a second server slowed by a quarter.
    """
    gpus = [gpu for _, gpu in case.telemetry.gpu_samples]
    if any(gpu.busy.value_or(0.0) >= FULLY_BUSY for gpu in gpus):
        return 1.0
    return max((gpu.others_busy.value for gpu in gpus if isinstance(gpu.others_busy, Known)), default=None)


@lru_cache(maxsize=256)  # more than there are parts and causes
def part_name(part: str) -> str:
    """The part by its fixed name: a cause that has no part in physics goes by its id, which outlives its title."""
    causes = {f"{cause.title[0].lower()}{cause.title[1:]}": name for name, cause in all_causes().items()}
    return part if part in NAMES else causes.get(part, OTHER)
