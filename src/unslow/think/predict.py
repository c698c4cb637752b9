"""Predictions for a case: the time of a token as configured, and with cures applied."""

from typing import Literal, NamedTuple

from unslow.facts.snapshot import Case
from unslow.facts.values import Absence, Known, MissingFactError, Unknown
from unslow.think.adapt.calibrated import calibrated, scale_of
from unslow.think.adapt.work import Cure, depth_of, work
from unslow.think.physics.decode import Part, ceiling_tokens_per_s, decode_parts, total_seconds
from unslow.think.physics.interval import Interval, inverse

SLOWEST = 1e-6  # tokens per second: below it, a figure is no speed
DECODE = "decode_tokens_per_s"
"""The metric that is predicted, by the name it has in a report."""


class Prediction(NamedTuple):
    """Seconds for a token, its parts, and what bandwidth alone would allow."""

    seconds: Interval
    parts: list[Part]
    ceiling: float
    basis: Literal["calibrated", "catalog"] = "catalog"

    @property
    def tokens_per_s(self) -> Interval:
        """The same as a rate; nothing beats the bandwidth."""
        low, mid, high = inverse(self.seconds)
        return Interval(low, mid, min(high, self.ceiling)) if self.ceiling > mid else Interval(low, mid, high)


def predict(case: Case, cure: Cure | None = None) -> Prediction | Unknown:
    """The prediction, or what it lacks."""
    try:
        plan = work(case, cure)
    except MissingFactError as error:
        return error.unknown
    known = calibrated(case, plan, depth_of(case))
    if known:
        return Prediction(*known, ceiling_tokens_per_s(plan), "calibrated")
    scale = scale_of(case, plan)
    parts = [part._replace(seconds=part.seconds * scale) for part in decode_parts(plan)]
    if not parts:
        return Unknown("nothing to predict from")
    return Prediction(
        total_seconds(parts), parts, ceiling_tokens_per_s(plan), "catalog" if scale == 1 else "calibrated"
    )


def measured_rate(case: Case) -> Known[float] | Unknown:
    """The speed that was measured, else what the runtime counted of its own work."""
    tried = case.run.decode_tokens_per_s
    if isinstance(tried, Unknown) and tried.absence is Absence.FAILED:
        return tried  # what the server did before it broke is no answer to how fast it is
    for fact in (tried, case.runtime.decode_tokens_per_s):
        if isinstance(fact, Known) and fact.value > SLOWEST:
            return fact
    if isinstance(tried, Unknown) and tried.absence is not Absence.NOT_LOOKED:
        return tried
    return Unknown("no speed was measured", "run `unslow` while the runtime is idle, without --passive")
