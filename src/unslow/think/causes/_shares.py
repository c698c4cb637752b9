"""Which part of a token's time the processor takes, by physics: a slow side that has little to do explains little."""

from unslow.facts.snapshot import Case
from unslow.think.adapt.who_computes import cpu_computes
from unslow.think.predict import predict
from unslow.think.prediction import Prediction, host_share

MOST = 0.5
"""Of a token's time: what takes more of it dominates."""


def _predicted_share(case: Case) -> float | None:
    """The share of the predicted time of a token that the CPU computes; None where nothing tells."""
    expected = predict(case)
    if isinstance(expected, Prediction):
        return host_share(expected)
    return {True: None, False: 0.0, None: None}[cpu_computes(case)]


def cpu_dominates(case: Case) -> bool | None:
    """Whether most of a token's time is the CPU's; None where nothing tells."""
    share = _predicted_share(case)
    return None if share is None else share > MOST
