"""What a token takes while a server answers several requests: each waits for the step that all of them share."""

from unslow.facts.snapshot import Case
from unslow.facts.values import NOT_LOOKED, Known, Unknown
from unslow.think.adapt.work import Cure, depth_of
from unslow.think.bench.users_expected import times_as_long
from unslow.think.physics.decode import Part
from unslow.think.physics.interval import Interval, around
from unslow.think.predict import Prediction, measured_rate, predict

OTHERS = "other requests in the same step"
SPREAD = 1.5
"""Of what a step takes longer for many: kernels for batches differ that much between runtimes."""
_SEVERAL = 1.5
"""Requests on average: fewer are one after the other."""


def predict_among_others(case: Case, cure: Cure | None = None) -> Prediction | Unknown:
    """The prediction for one of as many requests as were answered at once while it was watched."""
    alone = predict(case, cure)
    more = (times_longer(case, cure) - 1) * alone.seconds.mid if isinstance(alone, Prediction) else 0.0
    if not more or not isinstance(alone, Prediction):
        return alone
    seconds = Interval(*(s + m for s, m in zip(alone.seconds, around(more, SPREAD), strict=True)))
    return alone._replace(seconds=seconds, parts=[*alone.parts, Part(OTHERS, more, SPREAD)])


def rate_among_others(case: Case) -> Known[float] | Unknown:
    """The speed of a request: alone, else as it was seen among others."""
    each = each_rate(case)
    return each if isinstance(each, Known) else measured_rate(case)


def each_rate(case: Case) -> Known[float] | Unknown:
    """The speed of each of the requests that went on together; unknown where one alone was timed."""
    traffic, alone = case.run.traffic, case.run.decode_tokens_per_s
    return traffic.value.each_tokens_per_s if isinstance(traffic, Known) and isinstance(alone, Unknown) else NOT_LOOKED


def requests_at_once(case: Case) -> float:
    """How many requests were answered while the speed of one was seen; 0 where nobody watched."""
    traffic = case.run.traffic
    if not isinstance(traffic, Known):
        return 0.0
    return traffic.value.each_among if isinstance(each_rate(case), Known) else traffic.value.running


def times_longer(case: Case, cure: Cure | None = None) -> float:
    """How many times as long as alone a token takes; 1 where one request had the server for itself, or nothing tells.

    With a cure it is that of the cured server: on a GPU many share a step for little more than one has it.
    """
    running = requests_at_once(case)
    if running < _SEVERAL:
        return 1.0
    return max(1.0, times_as_long(case, round(running), depth_of(case), cure) or 1.0)
