"""What causes that were found take of a token, where that was measured or nothing else is left to take it.

Physics has no part for them: it reckons with weights that stay in memory, and with a GPU that nobody else uses. Only
what physics leaves unexplained is theirs, and never a cause's that was not found.
"""

from collections.abc import Callable, Collection

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.gpu_load import FULLY_BUSY, gpu_samples
from unslow.think.causes._watched import host_at_work
from unslow.think.phases import Pace
from unslow.think.predict import Prediction

READING, SWAPPING, SHARED = "reading weights from disk", "memory coming back from swap", "another process on the GPU"


def found_parts(case: Case, found: Collection[str], pace: Pace) -> dict[str, tuple[str, float]]:
    """By cause: the name of its part, and its seconds of a token by itself; none where nothing tells."""
    if not pace.measured_s or not isinstance(pace.now, Prediction):
        return {}
    left = max(0.0, pace.measured_s - pace.now.seconds.mid)
    shares = {cause: (name, share(case)) for cause, (name, share) in _SHARES.items() if cause in found}
    seconds = {cause: (name, min(left, s * pace.measured_s)) for cause, (name, s) in shares.items() if s}
    return {cause: part for cause, part in seconds.items() if part[1] > 0}


def _reading(case: Case) -> float | None:
    """The share of the time in which the disk gives weights: what it gave on average over the most it was seen give."""
    read, back = host_at_work(case, "disk_read_bytes_per_s"), host_at_work(case, "swap_in_bytes_per_s")
    if read is None or read.high <= 0:
        return None
    return max(0.0, read.mean - (back.mean if back else 0.0)) / read.high


def _swapping(case: Case) -> float | None:
    back = host_at_work(case, "swap_in_bytes_per_s")
    return back.mean / back.high if back and back.high > 0 else None


def _shared(case: Case) -> float | None:
    """All that is left where the GPU never pauses, else the share of the time that kernels of others run.

    The driver counts a process in few and coarse samples: 9 % of a GPU that a second server slowed by a quarter.
    """
    gpus = [gpu for _, gpu in gpu_samples(case)]
    if any(gpu.busy.value_or(0.0) >= FULLY_BUSY for gpu in gpus):
        return 1.0
    return max((gpu.others_busy.value for gpu in gpus if isinstance(gpu.others_busy, Known)), default=None)


_SHARES: dict[str, tuple[str, Callable[[Case], float | None]]] = {
    "weights_streamed_from_disk": (READING, _reading),
    "swapping": (SWAPPING, _swapping),
    "gpu_shared_with_other_work": (SHARED, _shared),
}
OF_ANY_WORK = frozenset({"gpu_shared_with_other_work"})
"""What slows the reading of prompts just as it slows answers."""
