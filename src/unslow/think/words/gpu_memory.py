"""Memory of several GPUs in prose: `22.0 GiB available each`, `6097MiB / 24576MiB, 5419MiB / 24576MiB`."""

import re
from collections.abc import Sequence
from typing import Any

from unslow.facts.bounded import bounded
from unslow.facts.machine import Gpu
from unslow.facts.merge import overlaid
from unslow.facts.units import MIB
from unslow.facts.values import Fact, Known, told
from unslow.think.words.lines import Line

_USAGE = re.compile(r"\b(\d{1,6}) ?mib\s{0,3}/\s{0,3}(\d{3,6}) ?mib\b")


def with_each(gpus: Fact[tuple[Gpu, ...]], facts: dict[str, Known[Any]]) -> Fact[tuple[Gpu, ...]]:
    """All GPUs with what is said of each of them."""
    if not isinstance(gpus, Known) or not facts:
        return gpus
    return Known(tuple(_with(gpu, facts) for gpu in gpus.value), gpus.origin, gpus.source)


def with_usage(gpus: Fact[tuple[Gpu, ...]], lines: Sequence[Line]) -> Fact[tuple[Gpu, ...]]:
    """Every GPU with its fragment of nvidia-smi, where there are as many fragments as GPUs."""
    shown = [(match, line.where) for line in lines for match in _USAGE.finditer(line.text)]
    if not isinstance(gpus, Known) or len(shown) != len(gpus.value):
        return gpus
    usages = [
        {"vram_used_bytes": told(int(match[1]) * MIB, where), "vram_total_bytes": told(int(match[2]) * MIB, where)}
        for match, where in shown
        if int(match[1]) <= int(match[2])
    ]
    if len(usages) != len(gpus.value):
        return gpus
    pairs = zip(gpus.value, usages, strict=True)
    return Known(tuple(_with(gpu, facts) for gpu, facts in pairs), gpus.origin, gpus.source)


def _with(gpu: Gpu, facts: dict[str, Any]) -> Gpu:
    return bounded(overlaid(gpu, Gpu(index=gpu.index, **facts)))
