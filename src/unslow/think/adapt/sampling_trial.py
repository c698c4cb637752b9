"""What a trial without samplers shows."""

from typing import NamedTuple

from unslow.facts.snapshot import Case
from unslow.facts.values import Known


class Turns(NamedTuple):
    """Tokens per second with the samplers as they are set, and without any."""

    as_set: float
    plain: float


def sampling_turns(case: Case) -> Known[Turns] | None:
    """Both speeds of the trial; None where nobody tried.

    With the samplers as they are set it was timed before as well: where that was faster, answers scatter, and only what
    lies beyond it is the samplers'.
    """
    tried, before = case.run.plain_sampling, case.run.decode_tokens_per_s.value_or(0.0)
    if not isinstance(tried, Known):
        return None
    as_set = max(tried.value.as_set_tokens_per_s, before)
    return Known(Turns(as_set, tried.value.changed_tokens_per_s), tried.origin, tried.source)
