"""The parts of a memory view: bars that add up to the capacity, the places of the sliders, and a summary."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from unslow.catalog.quants import mixes_from_large_to_small
from unslow.commands._request import COUNT, Field, Option
from unslow.facts.errors import UserError
from unslow.page.view import Choice, Fits, MemoryBar, MemoryPart, MemoryView, Slider, WhatIf
from unslow.show.units import rate, size
from unslow.think.fit.report import MemoryShown
from unslow.think.hardware import Room
from unslow.think.memory.llama_cpp.need import Need
from unslow.think.report import Range
from unslow.think.setup import SAME_MEMORY

UNNAMED = "other programs, unnamed"
_ORDER = ("weights", "kv", "compute", "stranger", "reserve")
"""In which parts lie; others and the reserve have their room first."""
_MOST_NAMED = 8  # Other programs with a part of their own; the smaller ones share one
KnobName = Literal["context", "gpu_layers", "kv_type", "quant", "slots"]
SHORTEST_CONTEXT = 2048  # A shorter one is not useful for a conversation
LIMITS = {"context": (256, 2**27), "slots": (1, 256)}  # As `unslow fit` takes them
LABELS: dict[KnobName, str] = {
    "context": "Context per slot",
    "gpu_layers": "GPU layers",
    "kv_type": "KV cache type",
    "quant": "Quantization",
    "slots": "Parallel slots",
}


class OtherProgram(NamedTuple):
    """A program that holds memory of a device; None where nothing tells how much."""

    name: str
    bytes: int | None


class AskedBytes(NamedTuple):
    """What a model asks of a memory, and what else it needs there."""

    parts: Need
    context_bytes: int = 0  # What the runtime holds before it has any buffer
    later_bytes: int = 0  # What the first prompt takes beside all buffers
    beside_bytes: int = 0
    """Of a memory that the host shares: what the runtime asks of it as the host's, which is in `parts` too."""


class AskedSettings(NamedTuple):
    """Where the sliders stand."""

    context: int
    gpu_layers: int
    kv_type: str
    quant: str
    slots: int


class LayerCount(NamedTuple):
    """How many layers lie on GPUs, the output counted as one, and of how many of these some matrices do not."""

    on_gpus: int
    layer_total: int
    split_layers: int = 0


class Memory:
    """The memory of one subject, with sliders."""

    def __init__(self, view: MemoryView, answer: Callable[[Mapping[str, str]], WhatIf]) -> None:
        self.view, self._answer = view, answer

    def what_if(self, settings: Mapping[str, str]) -> WhatIf:
        """With these settings, and those of now for the rest; UserError where they are not possible."""
        asked = parse_settings(self.view.sliders, settings)
        return self.view.now if asked == self.view.now.settings else self._answer(asked)

    def ready(self) -> tuple[WhatIf, ...]:
        """Every answer to one slider moved alone: for a file without a server."""
        places = [(slider, choice.value) for slider in self.view.sliders for choice in slider.choices]
        return tuple(self.what_if({slider.knob: value}) for slider, value in places if value != slider.value)


def parse_settings(sliders: Sequence[Slider], settings: Mapping[str, str]) -> dict[str, str]:
    """A value for every slider: as asked, else as it stands; UserError for what is not possible."""
    known = {slider.knob: slider for slider in sliders}
    if strange := sorted(set(settings) - set(known)):
        raise UserError(f"no slider {strange[0][:40]!r}", f"sliders: {', '.join(known) or 'none here'}")
    return {knob: _value(slider, settings.get(knob, slider.value)) for knob, slider in known.items()}


def _value(slider: Slider, value: str) -> str:
    values = [choice.value for choice in slider.choices]
    if value in values:
        return value
    if slider.knob not in LIMITS:
        few = values if len(values) <= 24 else (*values[:2], "...", values[-1])  # noqa: PLR2004 (what can be read)
        why = f"{slider.knob} must be a value of its slider (got {value[:40]!r})"
        raise UserError(why, f"use one of {', '.join(few)}")
    least, most = LIMITS[slider.knob]
    option = Option("the range of its slider", name=slider.knob, least=least, most=most)
    return str(Field(slider.knob, option, COUNT, None, several=False).value(value[:40]))


def bar_of(room: Room, asked: AskedBytes, others: Sequence[OtherProgram] = (), *, is_host: bool = False) -> MemoryBar:
    """The bar of a memory whose size is known."""
    kept = max(0, room.reserve_bytes + asked.context_bytes + asked.later_bytes - asked.beside_bytes)
    others_parts = other_parts(min(room.others_bytes, room.capacity_bytes), others, is_host=is_host)
    # Not usable: the driver's and the runtime's own first, which a shared memory may have less of
    later = min(kept, asked.later_bytes)
    reserved = (("driver and runtime", kept - later), ("workspace of the first prompt", later))
    reserve = [MemoryPart(kind="reserve", name=name, bytes=size) for name, size in reserved if size]
    free, held = room.capacity_bytes, []
    wanted = [*others_parts, *reserve, *own_parts(asked.parts)]
    for part in wanted:
        size = min(part.bytes, free)
        free -= size
        held.append(part if size == part.bytes else msgspec.structs.replace(part, bytes=size, wanted_bytes=part.bytes))
    lacking = sum(part.bytes for part in wanted) - (room.capacity_bytes - free)
    parts = sorted(held, key=lambda part: _ORDER.index(part.kind))
    if free > 0:
        parts.append(MemoryPart(kind="free", name="free", bytes=free))
    if lacking:
        parts.append(MemoryPart(kind="lacking", name="does not fit", bytes=lacking))
    capacity = room.capacity_bytes
    return MemoryBar(name=room.name, is_host=is_host, capacity_bytes=capacity, parts=tuple(parts), fits=not lacking)


def own_parts(parts: Need) -> list[MemoryPart]:
    """What a model itself asks of a memory."""
    every = (
        MemoryPart(kind="weights", name="weights", bytes=parts.weights),
        MemoryPart(kind="kv", name="KV cache", bytes=parts.cache),
        MemoryPart(kind="compute", name="compute buffers", bytes=parts.compute),
    )
    return [part for part in every if part.bytes]


def other_parts(held: int, others: Sequence[OtherProgram], *, is_host: bool = False) -> list[MemoryPart]:
    """What others hold, by their names: the largest first, and never more than is gone."""
    sizes: dict[str, list[int]] = {}
    for program in others:
        if program.bytes:
            sizes.setdefault(program.name, []).append(program.bytes)
    found, left = [], held
    for name, each in sorted(sizes.items(), key=lambda pair: -sum(pair[1]))[:_MOST_NAMED]:
        size = min(left, sum(each))
        left -= size
        if size:
            words = f"{name} ({len(each)} processes)" if len(each) > 1 else name
            found.append(MemoryPart(kind="stranger", name=words, bytes=size))
    if left > 0:
        # What is in use and not counted: by the names of those whose size the driver does not report
        untold = list(dict.fromkeys(program.name for program in others if not program.bytes))
        beyond = len(sizes) - _MOST_NAMED
        name = f"{beyond} smaller programs and unnamed ones" if beyond > 0 else UNNAMED
        if is_host:
            name = "other programs and the system"
        elif untold:
            name = f"{', '.join(untold[:3])}{' and others' if len(untold) > 3 else ''} (size unknown)"  # noqa: PLR2004
        found.append(MemoryPart(kind="stranger", name=name, bytes=left))
    return found


def slider(knob: KnobName, value: str, choices: tuple[Choice, ...], label: str = "") -> Slider:
    """One that stands at this value; with the label of its knob where it has none of its own."""
    return Slider(knob=knob, label=label or LABELS[knob], value=value, choices=choices)


def context_choices(now: int, trained: int) -> tuple[Choice, ...]:
    """Powers of two up to what the model was trained for, with that and what is now."""
    powers = (2**power for power in range(8, 28))
    places = {n for n in powers if SHORTEST_CONTEXT <= n <= trained} | {now, trained}
    return tuple(
        Choice(value=str(n), label=f"{n:,} tokens{' (trained)' if n == trained else ''}") for n in sorted(places)
    )


def layer_choices(layer_total: int) -> tuple[Choice, ...]:
    """Every number of layers."""
    labels = ["none", *(f"{n} of {layer_total}" for n in range(1, layer_total)), f"all {layer_total}"]
    return tuple(Choice(value=str(n), label=label) for n, label in enumerate(labels))


def cache_choices(now: str, allowed: Iterable[str], bits: Mapping[str, float]) -> tuple[Choice, ...]:
    """Types of keys and values, the smallest first."""
    kinds = sorted({now, *allowed}, key=lambda kind: (bits.get(kind.partition("/")[0], 0.0), kind))
    return tuple(Choice(value=kind, label=kind) for kind in kinds)


def quant_choices(now: str, bits: float) -> tuple[Choice, ...]:
    """The mixes that publishers offer as a matter of course, and what is now, the smallest first."""
    places = {mix.name: mix.bits_per_weight for mix in mixes_from_large_to_small()}
    places[now] = bits
    return tuple(Choice(value=name, label=name) for name in sorted(places, key=lambda name: (places[name], name)))


def slot_choices(now: int, *, shared: bool = False) -> tuple[Choice, ...]:
    """So many conversations at a time; those of now may share one context."""
    labels = {n: f"{n} (shared context)" if shared and n == now else str(n) for n in sorted({now, 1, 2, 4, 8, 16})}
    return tuple(Choice(value=str(n), label=label) for n, label in labels.items())


def verdict_with(verdict: Fits, layers: LayerCount, devices: Sequence[MemoryShown]) -> Fits:
    """What fits with a part of it on the host, though there is a GPU, fits in part."""
    is_whole = layers.on_gpus >= layers.layer_total and not layers.split_layers
    return "partly" if verdict in ("fits", "tight") and devices and not is_whole else verdict


def what_if_summary(
    verdict: Fits, devices: Sequence[MemoryShown], host: MemoryShown, layers: LayerCount, speed: Range | None
) -> str:
    """Whether it fits, where it lies, and how fast it should be."""
    if verdict == "does_not_fit":
        short = _shortage_words(devices, host)
        said = f"Does not fit: {short}" if short else "Does not fit"
    elif verdict == "cannot_tell":
        rest = f"host memory size is unknown ({size(host.total_bytes)} needed)"
        said = f"Fits on {_names(devices)}, but the {rest}" if devices else f"The {rest}"
    elif verdict == "partly" and not layers.on_gpus:
        said = f"No layers on {_names(devices)}: {size(host.total_bytes)} in host memory"
    elif verdict == "partly":
        on_gpus, total = layers.on_gpus, layers.layer_total
        what = f"{on_gpus} of {total} layers" if on_gpus < total else "all layers"
        without = f" except matrices of {layers.split_layers}" if layers.split_layers else ""
        said = f"Fits partly: {what}{without} on {_names(devices)}, {size(host.total_bytes)} in host memory"
    else:
        memories = devices or [host]
        sizes = [memory.usable_bytes for memory in memories]
        of = f" of {size(sum(known for known in sizes if known is not None))}" if None not in sizes else ""
        where = "the host" if memories[0].name.startswith("host") else _names(memories)
        said = f"Fits: {size(sum(memory.total_bytes for memory in memories))}{of} on {where}"
    tight = ", with little to spare" if verdict == "tight" else ""
    expected = f"; {rate(speed.low)} to {rate(speed.high)} tok/s expected" if speed else ""
    return f"{said}{tight}{expected}"


def overfull_words(devices: Sequence[MemoryShown], host: MemoryShown) -> str:
    """Of something that runs though it is more than there is."""
    told = _shortage_words(devices, host)
    return f"It runs although {told}: part of the memory it asked for is not in use yet, or is elsewhere"


def _shortage_words(devices: Sequence[MemoryShown], host: MemoryShown) -> str:
    short = [memory for memory in (*devices, host) if memory.lacking_bytes]
    if len(short) > 1 and host.name == SAME_MEMORY:  # which the device's own lack tells of
        short = [max(short, key=lambda memory: memory.lacking_bytes)]
    counted = Counter(memory.name for memory in short)
    lacking = {name: sum(m.lacking_bytes for m in short if m.name == name) for name in counted}
    told = []
    for name, count in counted.items():
        which = f"{count} {name} are" if count > 1 else f"the {name.partition(',')[0]} is"
        told.append(f"{which} {size(lacking[name])} short")
    return " and ".join(told[:3])


def _names(memories: Sequence[MemoryShown]) -> str:
    counted = Counter(memory.name for memory in memories)
    return " and ".join(f"{n} {name}" if n > 1 else f"the {name.partition(',')[0]}" for name, n in counted.items())
