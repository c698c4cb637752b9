"""What causes cost, alone and together: the measured time, carried through physics, with one cure after the other.

Physics seldom meets the measured time exactly. Half of the difference or more is given to the parts of the prediction,
most to those that are long and least certain; what the threads waited for a CPU, to the CPU's own. A cure then takes
away the parts that it takes away in physics, with what was given to them. A cure of which physics sees nothing is about
the remainder itself: the time falls to what physics expects.
"""

import math
from typing import NamedTuple

from unslow.facts.run import AtDepth
from unslow.facts.snapshot import Case
from unslow.think.case.gpus import has_no_gpu
from unslow.think.case.prediction import Prediction, is_of_host
from unslow.think.case.waits import waiting_s
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Found
from unslow.think.judge.phases import PER, Outlook, Pace
from unslow.think.physics.token_time import CROWD, QUOTA, Part
from unslow.think.report import Cost, Per

DEPTHS = "run.depths"  # The trial of which the speed is not that of the budget
QUICKEST = 0.2  # Of its predicted time, the least that a part can have taken: no part of the catalogue is off by more
LASTING = 0.5
"""Of what physics does not explain: at least half is taken to stay with its part, the rest may be of the moment."""
OF_THE_MOMENT = 1.3  # By which factor a measurement may be off what the same machine does at another moment
UNSEEN = 1.03  # A cure that gains no more than this by physics is about what physics does not see


class Price(NamedTuple):
    """What curing a cause saves beside those before it, and how many times as fast it is with it alone cured."""

    cost: Cost | None = None
    speedup: float | None = None


def price_alone(case: Case, found: Found, phase: str, outlook: Outlook) -> Price:
    """The price of one cause by itself."""
    together = Together(case, phase, outlook)
    start, cost = together.left, together.cured(found)
    faster = start / together.left if start and together.left and outlook.pace_of(phase) else None
    return Price(cost, found.speedup or (max(1.0, faster) if faster and cost else None))


class Together:
    """The time of one phase as its causes are cured one after the other: no second is counted twice."""

    def __init__(self, case: Case, phase: str, outlook: Outlook) -> None:
        self._case, self._pace, self._per = case, outlook.pace_of(phase), PER.get(phase, "request")
        self._start = self.left = start_s(phase, outlook)
        self._left_deep: float | None = None
        self._told: dict[Per, float] = {}
        self._cures: Cure | None = None
        self._explained = False
        self._least = least_s(case, self._pace) if self._pace else 0.0

    def cured(self, found: Found) -> Cost | None:
        """What this cure saves beside those before it: as measured, as tried, else by physics; None where none tells.

        What is no part of the requests that were timed stands as it is.
        """
        times, lost = max(1.0, found.speedup or 1.0), found.lost
        if deep := deepest_tried(self._case, found):
            # Of a token deep in the context: all causes there explain the same fall, and a second only what is left
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
        self._explained |= is_of_the_rest(self._case, self._pace, found.cure)
        self._cures = self._cures.and_also(found.cure) if self._cures else found.cure
        then = time_with(self._case, self._pace, self._cures, explained=self._explained)
        return None if then is None else max(then, min(self._least, self.left or 0.0))


def start_s(phase: str, outlook: Outlook) -> float | None:
    """The time that the causes of a phase share: measured, else, of what physics sees, as it is configured."""
    pace, time = outlook.pace_of(phase), outlook.time_of(phase)
    if pace is None:
        return time.seconds if time else None
    return pace.measured_s or (pace.now.seconds.mid if isinstance(pace.now, Prediction) else None)


def deepest_tried(case: Case, found: Found) -> AtDepth | None:
    """How fast it was deep in the context, where a cause rests on that: the speed at the start says nothing of it."""
    depths = [d for d in case.run.depths.value_or(()) if d.tokens_per_s > 0]
    if not found.speedup or all(e.fact != DEPTHS for e in found.evidence):
        return None
    return max(depths, key=lambda d: d.depth_tokens, default=None)


def time_with(case: Case, pace: Pace, cure: Cure, *, explained: bool = False) -> float | None:
    """Seconds with a cure, from the measured time through physics; None where physics lacks something.

    `explained` says that what physics does not see is gone with another cure.
    """
    then = pace.predict(case, cure)
    if not isinstance(then, Prediction):
        return None
    if pace.measured_s is None or not isinstance(pace.now, Prediction):
        return then.seconds.mid
    if explained or is_of_the_rest(case, pace, cure):
        return min(pace.measured_s, then.seconds.mid)
    factors = _factors(case, pace.now, pace.measured_s)
    reckoned = sum(part.seconds * factors.get(part.name, 1.0) for part in then.parts)
    summed = sum(part.seconds for part in then.parts)
    # of a calibrated prediction the parts need not sum to the whole
    return min(pace.measured_s, then.seconds.mid * (reckoned / summed if summed else 1.0))


def is_of_the_rest(case: Case, pace: Pace, cure: Cure) -> bool:
    """Whether a cure is about what physics does not see: who else uses the machine, a clock, a kernel."""
    if cure.alone:
        return True
    then = pace.predict(case, cure)
    if not isinstance(then, Prediction) or not isinstance(pace.now, Prediction):
        return False
    return pace.now.seconds.mid <= UNSEEN * then.seconds.mid


def least_s(case: Case, pace: Pace) -> float:
    """The seconds below which no cure is taken to go: what physics expects with all of them, where it knows."""
    if not isinstance(pace.best, Prediction):
        return 0.0
    # A CPU that is quicker than physics thinks is so with cures as well; beside a GPU the error may be the other's
    quicker = 1.0
    if pace.measured_s and isinstance(pace.now, Prediction) and has_no_gpu(case):
        quicker = min(1.0, pace.measured_s / pace.now.seconds.mid)
    return pace.best.seconds.mid * quicker


def _factors(case: Case, now: Prediction, measured_s: float) -> dict[str, float]:
    """How many times as long as predicted each part takes, by what was measured."""
    host = [p for p in now.parts if is_of_host(p.name)]
    waited = waiting_s(case, measured_s, now) if host else 0.0
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
