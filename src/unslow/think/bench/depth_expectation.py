"""What physics expects of a token deep in a context: how much longer it takes, and where its cache is read from."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from unslow.facts.snapshot import Case
from unslow.facts.values import MissingFactError, estimated
from unslow.think.adapt.bandwidth import host_bandwidth
from unslow.think.adapt.shape import kv_per_token
from unslow.think.adapt.vram import gpus_used
from unslow.think.adapt.work import Cure, work
from unslow.think.predict import Prediction, predict

_IN_PLACE = Cure(kv_on_gpu=True)
SHALLOW = 256
"""Where the slope begins; physics has it the same everywhere but in a window."""


class Expectation(NamedTuple):
    """What is expected with the cache beside its weights; a figure that is not known is 0."""

    slope_s: float = 0.0
    """What each token of depth adds to the time of a generated one."""
    on_gpu: bool = False
    kv_bytes: float = 0.0
    """Of keys and values, for each token of depth."""
    host_bytes_per_s: float = 0.0
    vram_bytes: float = 0.0


def expected_rates(case: Case, depths: Iterable[float]) -> dict[float, float]:
    """Tokens per second at each depth; none where physics lacks a fact."""
    found = {depth: _seconds(case, depth) for depth in depths}
    return {depth: 1 / seconds for depth, seconds in found.items() if seconds}


def expectation_of(case: Case, deepest: float) -> Expectation:
    """What to hold a measured slope against."""
    deep = max(deepest, 2 * SHALLOW)
    above, below = _seconds(case, deep), _seconds(case, SHALLOW)
    slope = max(0.0, above - below) / (deep - SHALLOW) if above and below else 0.0
    vram = max((gpu.vram_total_bytes.value_or(0) for gpu in gpus_used(case)), default=0)
    return Expectation(slope, _on_gpu(case), kv_per_token(case), _host_bytes_per_s(case), vram)


def _seconds(case: Case, depth: float) -> float:
    found = predict(_at(case, depth), _IN_PLACE)
    return found.seconds.mid if isinstance(found, Prediction) else 0.0


def _at(case: Case, depth: float) -> Case:
    run = msgspec.structs.replace(case.run, depth_tokens=estimated(int(depth), "the depth that was asked for"))
    return msgspec.structs.replace(case, run=run)


def _on_gpu(case: Case) -> bool:
    try:
        return work(case).device is not None
    except MissingFactError:
        return False


def _host_bytes_per_s(case: Case) -> float:
    """How fast the CPU reads what lies in RAM while it computes with it."""
    try:
        return host_bandwidth(case)[0]
    except MissingFactError:
        return 0.0
