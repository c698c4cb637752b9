"""Routes that several causes have in common."""

from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent


def as_fast_as_expected(case: CaseView) -> Absent | None:
    """The measured speed against the expected one."""
    return Absent("decode is as fast as expected with these settings") if case.speed.is_slow is False else None


def threads_have_no_work(case: CaseView) -> Absent | None:
    """Threads matter only where the CPU computes a part of the model."""
    is_idle = case.placement.cpu_computes is False
    return Absent("all layers are on the GPU: the threads have next to nothing to do") if is_idle else None


def weights_failed(case: CaseView) -> Absent | None:
    """The weights themselves could not be allocated."""
    failure = case.runtime.memory.allocation_failure.get()
    return Absent("the weights themselves found no room") if failure and failure.what == "weights" else None
