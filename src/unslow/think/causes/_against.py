"""Whether the speed falls short of what physics expects with a cure applied."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.work import Cure
from unslow.think.predict import Prediction, measured_rate, predict


def lost_against(case: Case, cure: Cure) -> float | None:
    """How many times slower than with the cure; 1 where it is within that interval, None where nobody can tell."""
    measured, expected = measured_rate(case), predict(case, cure)
    if not isinstance(measured, Known) or not isinstance(expected, Prediction):
        return None
    rate = expected.tokens_per_s
    return 1.0 if measured.value >= rate.low else rate.mid / measured.value
