"""Whether the measured speed falls short of what physics expects: of the model where it lies, or with a cure."""

import math

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.cure import AS_USUAL, Cure
from unslow.think.adapt.experiments import blames
from unslow.think.among_others import predict_among_others, rate_among_others
from unslow.think.predict import Prediction

WORTH_NAMING = 1.15
"""A gain below this is no reason to call a system slow, nor to touch it."""


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


def times_slower(case: Case, cure: Cure) -> float | None:
    """How many times slower than the middle of what is expected with a cure; None where it can't be told.

    For a cause whose presence was seen: then the interval's width, which all set-ups share, is no argument against it.
    """
    measured, expected = rate_among_others(case), predict_among_others(case, cure)
    if not isinstance(measured, Known) or not isinstance(expected, Prediction):
        return None
    return expected.tokens_per_s.mid / measured.value


def behaves_as_set_up(case: Case, cure: Cure) -> bool:
    """Whether a cure is worth naming by physics, and the measured speed is nearer to that without it than with it.

    Both predictions share their errors, so that their ratio is sharper than either interval.
    """
    now, slower = predict_among_others(case), times_slower(case, cure)
    then = predict_among_others(case, cure)
    if slower is None or not isinstance(now, Prediction) or not isinstance(then, Prediction):
        return False
    gain = now.seconds.mid / then.seconds.mid
    return gain >= WORTH_NAMING and slower >= math.sqrt(gain)


def generates_slowly(case: Case) -> bool | None:
    """Whether tokens come slower than they should: by physics, else by what a person says; None where neither tells."""
    lost = shortfall(case)
    if lost is not None:
        return lost > 1
    return True if blames(case, "decode") else None
