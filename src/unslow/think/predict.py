"""Predictions for a case: the time of a token as configured, and with cures applied."""

from unslow.facts.runtime import SO_FAR
from unslow.facts.snapshot import Case
from unslow.facts.values import Absence, Known, MissingFactError, Unknown
from unslow.think.adapt.calibrated import calibrated, scale_of
from unslow.think.adapt.remembered import remembered
from unslow.think.adapt.runtime_family import runs_paged
from unslow.think.adapt.work import Cure, depth_of, work
from unslow.think.physics.decode import Part, ceiling_tokens_per_s, decode_parts, total_seconds
from unslow.think.predict_prefill import PREFILL, measured_prefill, predict_prefill
from unslow.think.prediction import Prediction

__all__ = ["DECODE", "PREFILL", "Prediction", "measured_prefill", "measured_rate", "predict", "predict_prefill"]

SLOWEST = 1e-6  # tokens per second: below it, a figure is no speed
DECODE = "decode_tokens_per_s"
"""The metric that is predicted, by the name it has in a report."""


def predict(case: Case, cure: Cure | None = None) -> Prediction | Unknown:
    """The prediction, or what it lacks."""
    asked = cure or Cure()
    return remembered(case, (DECODE, asked), lambda: _predicted(case, asked))


def _predicted(case: Case, cure: Cure) -> Prediction | Unknown:
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
    parts = [Part(part.name, part.seconds * scale, part.spread) for part in decode_parts(plan)]
    if not parts:
        return Unknown("nothing to predict from")
    return Prediction(
        total_seconds(parts), parts, ceiling_tokens_per_s(plan), "catalog" if scale == 1 else "calibrated"
    )


MEASURE = "run `unslow` while the runtime is idle, without --passive"
SHARED_BY = (1.05, 1.5)
"""Requests at a time, on average, of which some were alone and some were not."""


def _is_shared(case: Case) -> bool:
    traffic = case.run.traffic
    return isinstance(traffic, Known) and SHARED_BY[0] < traffic.value.running < SHARED_BY[1]


def _is_of_unknown_company(case: Case) -> bool:
    """Whether a server that answers many at once only counts a mean, and nobody watched how many they are."""
    counted = case.runtime.decode_tokens_per_s
    alone = case.runtime.max_sequences.value_or(2) == 1
    mean = isinstance(counted, Known) and counted.source.endswith(SO_FAR)
    return mean and not alone and runs_paged(case) is True and not isinstance(case.run.traffic, Known)


def measured_rate(case: Case) -> Known[float] | Unknown:
    """The speed that was measured, else what the runtime counted of its own work."""
    tried = case.run.decode_tokens_per_s
    if isinstance(tried, Unknown) and tried.absence is Absence.FAILED:
        return tried  # what the server did before it broke is no answer to how fast it is
    if isinstance(tried, Unknown) and _is_shared(case):
        return tried  # nor is an average over requests that now and then shared it
    if isinstance(tried, Unknown) and _is_of_unknown_company(case):
        return Unknown("its own mean is of all requests so far, and how many shared it at a time is not known", MEASURE)
    for fact in (tried, case.runtime.decode_tokens_per_s):
        if isinstance(fact, Known) and fact.value > SLOWEST:
            return fact
    if isinstance(tried, Unknown) and tried.absence is not Absence.NOT_LOOKED:
        return tried
    return Unknown("no speed was measured", MEASURE)
