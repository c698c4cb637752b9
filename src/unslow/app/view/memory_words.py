"""What would be with certain settings, in one sentence."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from unslow.show._units import rate, size
from unslow.think.fit.report import MemoryShown
from unslow.think.report import Range
from unslow.think.setup import SAME_MEMORY
from unslow.think.view.report import Fits


class Layers(NamedTuple):
    """How many layers lie on GPUs, the output counted as one, and of how many of these some matrices do not."""

    on_gpus: int
    everything: int
    parted: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether everything is on GPUs."""
        return self.on_gpus >= self.everything and not self.parted


def verdict_with(verdict: Fits, layers: Layers, devices: Sequence[MemoryShown]) -> Fits:
    """What fits with a part of it on the host, though there is a GPU, fits in part."""
    return "partly" if verdict in ("fits", "tight") and devices and not layers.is_whole else verdict


def summary(
    verdict: Fits, devices: Sequence[MemoryShown], host: MemoryShown, layers: Layers, speed: Range | None
) -> str:
    """Whether it fits, where it lies, and how fast it should be."""
    said = {"does_not_fit": _lacks, "cannot_tell": _unknown, "partly": _in_part}.get(verdict, _whole)(
        devices, host, layers
    )
    tight = ", with little to spare" if verdict == "tight" else ""
    expected = f"; {rate(speed.low)} to {rate(speed.high)} tok/s expected" if speed else ""
    return f"{said}{tight}{expected}"


def _whole(devices: Sequence[MemoryShown], host: MemoryShown, _: Layers) -> str:
    return f"Fits: {_used(devices)}" if devices else f"Fits: {_used([host])}"


def _in_part(devices: Sequence[MemoryShown], host: MemoryShown, layers: Layers) -> str:
    if not layers.on_gpus:
        return f"Nothing on {_names(devices)}: {size(host.total_bytes)} in the host's memory"
    what = f"{layers.on_gpus} of {layers.everything} layers" if layers.on_gpus < layers.everything else "all layers"
    without = f" but for matrices of {layers.parted}" if layers.parted else ""
    return f"Fits in part: {what}{without} on {_names(devices)}, {size(host.total_bytes)} in the host's memory"


def _lacks(devices: Sequence[MemoryShown], host: MemoryShown, _: Layers) -> str:
    told = _short_of(devices, host)
    return f"Does not fit: {told}" if told else "Does not fit"


def _short_of(devices: Sequence[MemoryShown], host: MemoryShown) -> str:
    short = [memory for memory in (*devices, host) if memory.lacking_bytes]
    if len(short) > 1 and host.name == SAME_MEMORY:  # which the device's own lack tells of
        short = [max(short, key=lambda memory: memory.lacking_bytes)]
    counted = Counter(memory.name for memory in short)
    lacking = {name: sum(m.lacking_bytes for m in short if m.name == name) for name in counted}
    told = [
        f"{count} {name} lack {size(lacking[name])}" if count > 1 else f"{_the(name)} lacks {size(lacking[name])}"
        for name, count in counted.items()
    ]
    return " and ".join(told[:3])


def overfull(devices: Sequence[MemoryShown], host: MemoryShown) -> str:
    """Of something that runs though it is more than there is."""
    told = _short_of(devices, host)
    return f"It runs, and {told} for all that it asked for: some of it is not in use yet, or lies elsewhere"


def _unknown(devices: Sequence[MemoryShown], host: MemoryShown, _: Layers) -> str:
    rest = f"how much memory the host has for {size(host.total_bytes)} is not known"
    return f"{_names(devices)} would have room, but {rest}" if devices else rest.capitalize()


def _used(memories: Sequence[MemoryShown]) -> str:
    """What is taken of what can be had."""
    asked = sum(memory.total_bytes for memory in memories)
    sizes = [usable(memory) for memory in memories]
    of = f" of {size(sum(known for known in sizes if known is not None))}" if None not in sizes else ""
    where = "the host" if memories[0].name.startswith("host") else _names(memories)
    return f"{size(asked)}{of} on {where}"


def usable(memory: MemoryShown) -> int | None:
    """What others and the driver leave; None where nobody knows its size."""
    if memory.capacity_bytes is None:
        return None
    return max(0, memory.capacity_bytes - memory.others_bytes - memory.reserve_bytes)


def _names(memories: Sequence[MemoryShown]) -> str:
    counted = Counter(memory.name for memory in memories)
    return " and ".join(f"{count} {name}" if count > 1 else _the(name) for name, count in counted.items())


def _the(name: str) -> str:
    return f"the {name.partition(',')[0]}"
