"""What physics says of many requests at once on one instance, as it is set up or cut over twice as many GPUs."""

from collections.abc import Callable

import msgspec

from unslow.facts.machine import Gpu
from unslow.facts.runtime import IN_BATCHES
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, estimated
from unslow.think.adapt.work import depth_of
from unslow.think.among_others import SPREAD
from unslow.think.bench.users_expected import times_as_long
from unslow.think.predict import Prediction, predict

_ROOM = 0.9
"""Of a card that vLLM, SGLang and TGI fill with weights and cache unless they are told otherwise."""
_MOST_GPUS = 8
"""Cards that one machine joins; tensor parallel over more than one machine is another matter."""


Steps = Callable[[float], tuple[float, float, float]]
"""The seconds of a step for so many requests: low, middle and high."""


def longer(case: Case) -> Callable[[float], float | None]:
    """How many times as long as for one request a step takes for so many; each load is worked out once."""
    known: dict[int, float | None] = {}

    def times(requests: float) -> float | None:
        users = max(1, round(requests))
        if users not in known:
            known[users] = times_as_long(case, users, depth_of(case))
        return known[users]

    return times


def steps(case: Case) -> Steps | None:
    """The seconds of a step by physics alone; None where it lacks a fact."""
    alone, times = predict(case), longer(case)
    if not isinstance(alone, Prediction) or times(1) is None:
        return None

    def step(requests: float) -> tuple[float, float, float]:
        more = max(1.0, times(requests) or 1.0) - 1
        low, mid, high = alone.seconds
        return (low * (1 + more / SPREAD), mid * (1 + more), high * (1 + more * SPREAD))

    return step


def why_not(case: Case) -> str:
    """What physics lacks of a case."""
    alone = predict(case)
    return "physics can't tell what many requests take" if isinstance(alone, Prediction) else alone.why


def over_twice_as_many(case: Case) -> Case | None:
    """The same with every layer cut over twice as many like GPUs; None where that is not done or not known."""
    gpus, parallel = case.machine.gpus.value_or(()), case.runtime.tensor_parallel.value_or(0)
    parallel = parallel or (1 if len(gpus) == 1 else 0)
    if case.runtime.name.value_or("") not in IN_BATCHES or not parallel or 2 * parallel > _MOST_GPUS:
        return None
    if len({gpu.name.value_or("") for gpu in gpus}) != 1 or len(gpus) != parallel:
        return None
    runtime = msgspec.structs.replace(case.runtime, tensor_parallel=estimated(2 * parallel, "twice as many"))
    machine = msgspec.structs.replace(case.machine, gpus=estimated(_twice(gpus), "twice as many"))
    return msgspec.structs.replace(case, runtime=runtime, machine=machine)


def _twice(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    first = max(gpu.index for gpu in gpus) + 1
    return (*gpus, *(msgspec.structs.replace(gpu, index=first + n) for n, gpu in enumerate(gpus)))


def more_cache(case: Case) -> float:
    """How many times as much cache twice the memory leaves beside the same weights; twice where nothing tells more."""
    sizes = [gpu.vram_total_bytes for gpu in case.machine.gpus.value_or(())]
    room = _ROOM * sum(size.value for size in sizes if isinstance(size, Known))
    weights = case.model.weights_bytes.value_or(0)
    return (2 * room - weights) / (room - weights) if 0 < weights < room else 2.0
