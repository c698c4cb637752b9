"""Predictions for a case: the time of a token as configured, and with cures applied."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Absence, Known, MissingFactError, Unknown
from unslow.think.adapt.calibrated import calibrated, scale_of
from unslow.think.adapt.work import Cure, depth_of, work
from unslow.think.physics.decode import ceiling_tokens_per_s, decode_parts, total_seconds
from unslow.think.predict_prefill import PREFILL, measured_prefill, predict_prefill
from unslow.think.prediction import Prediction

__all__ = ["DECODE", "PREFILL", "Prediction", "measured_prefill", "measured_rate", "predict", "predict_prefill"]

SLOWEST = 1e-6  # tokens per second: below it, a figure is no speed
DECODE = "decode_tokens_per_s"
"""The metric that is predicted, by the name it has in a report."""


def predict(case: Case, cure: Cure | None = None) -> Prediction | Unknown:
    """The prediction, or what it lacks."""
    try:
        plan = work(case, cure)
    except MissingFactError as error:
        return error.unknown
    known = calibrated(case, plan, depth_of(case))
    if known:
        parts = [*known[1], *plan.beside]
        more = sum(part.seconds for part in plan.beside)
        return Prediction(known[0].shifted(more), parts, ceiling_tokens_per_s(plan), "calibrated")
    scale = scale_of(case, plan)
    parts = [part._replace(seconds=part.seconds * scale) for part in decode_parts(plan)]
    if not parts:
        return Unknown("nothing to predict from")
    return Prediction(
        total_seconds(parts), parts, ceiling_tokens_per_s(plan), "catalog" if scale == 1 else "calibrated"
    )


SHARED_BY = (1.05, 1.5)
"""Requests at a time, on average, of which some were alone and some were not."""


def _is_shared(case: Case) -> bool:
    traffic = case.run.traffic
    return isinstance(traffic, Known) and SHARED_BY[0] < traffic.value.running < SHARED_BY[1]


def measured_rate(case: Case) -> Known[float] | Unknown:
    """The speed that was measured, else what the runtime counted of its own work."""
    tried = case.run.decode_tokens_per_s
    if isinstance(tried, Unknown) and tried.absence is Absence.FAILED:
        return tried  # what the server did before it broke is no answer to how fast it is
    if isinstance(tried, Unknown) and _is_shared(case):
        return tried  # nor is an average over requests that now and then shared it
    for fact in (tried, case.runtime.decode_tokens_per_s):
        if isinstance(fact, Known) and fact.value > SLOWEST:
            return fact
    if isinstance(tried, Unknown) and tried.absence is not Absence.NOT_LOOKED:
        return tried
    return Unknown("no speed was measured", "run `unslow` while the runtime is idle, without --passive")
