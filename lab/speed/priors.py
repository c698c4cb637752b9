"""What is plausible of every factor before any measurement: the middle, and how far it may lie off, in logarithms."""

import math
from typing import NamedTuple


class Prior(NamedTuple):
    """The middle and the width, as logarithms."""

    mean: float
    width: float


MICRO = 1e-6
_MIDDLES = {
    "waste": (0.1, 0.7), "expert waste": (0.4, 0.7), "cache waste": (0.5, 0.7), "product": (3.0, 1.0),
    "layer": (30 * MICRO, 0.7), "wide layer": (30 * MICRO, 0.7), "expert layer": (40 * MICRO, 0.7),
    "state layer": (50 * MICRO, 0.7), "step": (200 * MICRO, 0.7),
    "crossing": (100 * MICRO, 0.7), "crossing waste": (0.02, 0.7), "host crossing": (100 * MICRO, 0.7),
    "gather": (30 * MICRO, 0.7), "gather each": (30 * MICRO, 0.7), "gather wide": (10 * MICRO, 0.7),
    "barrier": (4 * MICRO, 0.4), "expert barrier": (8 * MICRO, 0.4),
    "prompt": (1.5, 0.7), "energy": (3.0, 0.3), "prompt experts": (2.0, 0.7), "unpacking": (0.5, 0.5),
    "activations": (1.0, 0.7), "prompt layer": (100 * MICRO, 0.7), "prompt expert layer": (200 * MICRO, 0.7),
    "prompt state layer": (500 * MICRO, 0.7), "prompt attention": (2.0, 0.7), "prompt crossing": (1e-10, 0.7),
    "prompt gather": (6e-10, 1.2), "prompt gather each": (100 * MICRO, 1.0),
    "prompt copy": (1.2, 0.3), "prompt copy experts": (0.8, 0.4),
    "packed cache": (80.0, 0.7), "batched layer": (30 * MICRO, 0.7),
    "conversation": (30 * MICRO, 0.7), "batched": (0.35, 0.5), "tiles": (1.5, 0.5), "batch": (2.0, 0.7),
    "served waste": (0.1, 0.7), "served cache waste": (0.05, 0.7), "served fp8": (3.0, 1.0), "served int4": (6.0, 1.0),
    "served batch": (1.5, 0.7), "served layer": (15 * MICRO, 0.7), "served expert layer": (30 * MICRO, 0.7),
    "served state layer": (40 * MICRO, 0.7), "served step": (500 * MICRO, 0.7), "served sampling": (2 * MICRO, 1.0),
    "served schedule": (1000 * MICRO, 0.7), "served answer": (50 * MICRO, 0.7),
    "served prompt": (1.7, 0.7), "served prompt attention": (2.0, 0.7), "served prompt layer": (50 * MICRO, 0.7),
    "served prompt expert layer": (150 * MICRO, 0.7), "served prompt step": (4000 * MICRO, 0.7),
    "served prompt token": (1 * MICRO, 0.7),
}  # fmt: skip
"""By kind: the usual value, and the width."""
_CPU = {
    "product": (1.2, 0.7), "waste": (0.15, 0.5), "layer": (20 * MICRO, 0.7), "step": (500 * MICRO, 0.7),
    "prompt": (0.5, 0.7), "prompt attention": (1.0, 0.7), "row": (0.01 * MICRO, 0.5), "attention": (12.0, 0.3),
}  # fmt: skip
"""Of CPUs; attention as on cores of two virtual machines, where each token of depth took 8 and 10 us for 34,560
products."""
_SHIFTS = {
    "unfused": (0.0, 0.3), "types": (0.0, 0.7), "launch": (0.0, 0.4),
    "progress": (0.0, 0.1), "launch progress": (0.1, 0.1),
    "slow host": (0.5, 0.5), "no peers": (0.3, 0.5), "linked": (-1.4, 0.3), "prompt types": (0.0, 0.4),
    "unfused prompt": (0.5, 0.5), "prompt progress": (0.1, 0.15), "pipeline": (-0.9, 0.2),
    "no peers prompt": (0.3, 0.5), "slow host prompt": (0.5, 0.5), "wide vectors": (-0.4, 0.2),
    "prompt wide vectors": (-0.6, 0.3), "server": (0.4, 0.4),
    "served launch": (0.0, 0.4), "served prompt types": (0.0, 0.4),
}  # fmt: skip
"""By kind, as logarithms: what makes others larger or smaller. AVX-512 multiplies twice as many weights at once, which
are unpacked no faster, and most kernels of llama.cpp have no form of their own for it: 1.2 to 1.8 times as fast."""
_DEVIATIONS = {"energy": 0.15, "launch": 0.4}
_OF_CPUS = {
    "product/runtime/ik_llama": (-0.4, 0.3), "prompt product/runtime/ik_llama": (-0.7, 0.4),
    "product/runtime/mlx": (3.5, 0.2), "prompt product/runtime/mlx": (2.9, 0.5),
}  # fmt: skip
"""A fork with faster kernels for CPUs; and MLX, which has few for them: 51, 14.6 and 6.0 tok/s with 30, 135 and 300
million weights in F32 on two cores that read 44 GB/s, and 98 tok/s of a prompt (lab/data/faults/mlx_lm_first.jsonl)."""
_CPU_PRODUCT = (0.2, 0.4)
"""How far families of CPUs deviate in what a product takes, and devices: families are those of their memory, which
tells little of cores."""
_DEVIATION = 0.4
"""How far a family may lie off its backend, and a runtime off llama.cpp."""
_FAMILY_LEVEL = 2
_DEVICE_DEVIATION = 0.2
"""How far a device may lie off its family."""
_NOT_YET = 0.02
"""Of what is learned only for a device that was measured closely, after all others."""


def prior_of(name: str) -> Prior:
    """The prior of a factor by its name: kind, kind/backend, kind/backend/family or kind/backend/family/device."""
    kind, *rest = name.split("/")
    if kind.startswith("own "):
        return Prior(0.0, _NOT_YET)
    if len(rest) > 1:
        return _deviation(name, kind, is_device=len(rest) > _FAMILY_LEVEL)
    if kind in _SHIFTS:
        return Prior(*_SHIFTS[kind])
    middle, width = (_CPU if rest == ["cpu"] and kind in _CPU else _MIDDLES)[kind]
    return Prior(math.log(middle), width)


def _deviation(name: str, kind: str, *, is_device: bool) -> Prior:
    """Of a family from its backend, or of a device from its family."""
    if name in _OF_CPUS:
        return Prior(*_OF_CPUS[name])
    if name.startswith("product/cpu/"):
        return Prior(0.0, _CPU_PRODUCT[is_device])
    return Prior(0.0, _DEVICE_DEVIATION if is_device else _DEVIATIONS.get(kind, _DEVIATION))


BACKENDS = ("cuda", "rocm", "metal", "vulkan")
_NAMELESS = frozenset({
    "crossing waste", "slow host", "no peers", "pipeline", "no peers prompt", "slow host prompt", "prompt crossing",
    "linked",
})  # fmt: skip
_BY_SPLIT = frozenset({"gather", "gather each", "gather wide", "prompt gather", "prompt gather each"})
_ONLY_CPU = frozenset({"barrier", "expert barrier", "wide vectors", "prompt wide vectors", "server"})
_NOT_BY_BACKEND = frozenset({"types", "launch", "prompt types", "served launch", "served prompt types"})


def all_factors() -> list[str]:
    """Every factor that a prediction may need, however little was measured."""
    names: list[str] = [f"{kind}/cpu" for kind in (*_CPU, *_ONLY_CPU)] + [*_OF_CPUS]
    for kind in (*_MIDDLES, *_SHIFTS):
        if kind in _NAMELESS:
            names.append(kind)
        elif kind in _BY_SPLIT:
            names += [f"{kind}/{split}" for split in ("row", "tensor")]
        elif kind not in _NOT_BY_BACKEND | _ONLY_CPU:
            names += [f"{kind}/{backend}" for backend in BACKENDS]
    return names
