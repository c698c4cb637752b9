"""What a token takes while a server answers several requests: each waits for the step that all of them share."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.think.adapt.work import Cure, depth_of
from unslow.think.bench.users_expected import expected_together
from unslow.think.physics.decode import Part
from unslow.think.predict import Prediction, predict

OTHERS = "other requests in the same step"
SPREAD = 1.5
"""Of what a step takes longer for many: kernels for batches differ that much between runtimes."""
_SEVERAL = 1.5
"""Requests on average: fewer are one after the other."""


def predict_among_others(case: Case, cure: Cure | None = None) -> Prediction | Unknown:
    """The prediction for one of as many requests as were answered at once while it was watched."""
    alone, more = predict(case, cure), longer_s(case)
    if not more or not isinstance(alone, Prediction):
        return alone
    return alone._replace(seconds=alone.seconds.shifted(more), parts=[*alone.parts, Part(OTHERS, more, SPREAD)])


def longer_s(case: Case) -> float:
    """By how much a token takes longer than alone; 0 where one request had the server for itself, or nothing tells."""
    traffic = case.run.traffic
    running = traffic.value.running if isinstance(traffic, Known) else 0.0
    if running < _SEVERAL:
        return 0.0
    users, depth = round(running), depth_of(case)
    one, all_of_them = expected_together(case, 1, depth), expected_together(case, users, depth)
    return max(0.0, users / all_of_them - 1 / one) if one and all_of_them else 0.0
