"""Whether a change that frees GPU memory brings back enough of what was pushed out to be called the cause."""

from unslow.facts.snapshot import Case
from unslow.think.adapt.account import WORTH_COMPARING
from unslow.think.adapt.work import Cure
from unslow.think.predict import Prediction, predict

REAL_SHARE = 0.25
"""Of the layers on the host: what brings back fewer is no more than rounding, beside a model that is too large."""


def brings_back_enough(case: Case, cure: Cure, gained: int, left: int) -> bool:
    """Whether a cure brings back a real share of the layers that are left on the host, or a gain by physics."""
    if gained <= 0:
        return False
    now, then = predict(case), predict(case, cure)
    if isinstance(now, Prediction) and isinstance(then, Prediction) and then.seconds.mid > 0:
        return gained >= REAL_SHARE * left or now.seconds.mid / then.seconds.mid >= WORTH_COMPARING
    return gained >= REAL_SHARE * left
