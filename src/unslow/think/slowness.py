"""Whether the measured speed falls short of what physics expects: of the model where it lies, or with a cure."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.cure import AS_USUAL, Cure
from unslow.think.adapt.experiments import blames
from unslow.think.among_others import predict_among_others, rate_among_others
from unslow.think.predict import Prediction


def shortfall(case: Case) -> float | None:
    """How many times slower than expected; 1 where the speed lies within the interval, None where it can't be told."""
    return lost_against(case, AS_USUAL)


def lost_against(case: Case, cure: Cure) -> float | None:
    """How many times slower than with a cure; 1 where it lies within that interval, None where it can't be told."""
    measured, expected = rate_among_others(case), predict_among_others(case, cure)
    if not isinstance(measured, Known) or not isinstance(expected, Prediction):
        return None
    rate = expected.tokens_per_s
    return 1.0 if measured.value >= rate.low else rate.mid / measured.value


def generates_slowly(case: Case) -> bool | None:
    """Whether tokens come slower than they should: by physics, else by what a person says; None where neither tells."""
    lost = shortfall(case)
    if lost is not None:
        return lost > 1
    return True if blames(case, "decode") else None
