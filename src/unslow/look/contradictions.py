"""Where sources cannot all be right: what was asked for, reported, decided, allocated, and seen on the device.

Pure. Whoever has several sources hands them over in the order in which they came about, each with its name; whoever
has one alone, with a machine, learns what the device says against it.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from unslow.facts.machine import Machine
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Contradiction, Statement
from unslow.facts.values import GIB, MIB, Known, Origin

_STATED = (Origin.REPORTED, Origin.MEASURED, Origin.TOLD)

_HELD_SHARE = 0.7  # of what was planned; drivers round up, never so far down
_NOTABLE_BYTES = 256 * MIB

_TINY_SHARE = 0.5  # of the weights, where every layer is said to be on a GPU
_NOTABLE_WITHOUT_LAYERS = 64 * MIB

_PADDING = 256  # llama.cpp rounds a context up to a multiple of this

_SAME: tuple[tuple[str, Callable[[Any], str], str], ...] = (
    ("kv_type_k", lambda t: f"K cache type {t}", "the runtime fell back to another cache type"),
    ("kv_type_v", lambda t: f"V cache type {t}", "a quantized V cache needs flash attention"),
    (
        "flash_attention",
        lambda on: f"flash attention is {'on' if on else 'off'}",
        "the backend has no such kernel for this model, or something else turned it off",
    ),
    ("slots", lambda n: f"{n} slots", "the runtime chose another number of slots"),
    ("threads", lambda n: f"{n} threads", "a limit on the machine, or a later setting, changed the threads"),
    ("kv_unified", lambda on: f"unified KV cache: {'yes' if on else 'no'}", ""),
    ("load_mode", lambda mode: f"load mode {mode}", "the device does not support this load mode"),
    ("split_mode", lambda mode: f"split mode {mode}", "the runtime rejected this split mode"),
)
"""Facts on which all sources must agree: how each is said, and what it means where they do not."""


def contradictions(sources: Sequence[tuple[str, Runtime]], model: Model, machine: Machine) -> tuple[Contradiction, ...]:
    """Every contradiction between the sources, and between them and the machine."""
    runtimes = [runtime for _, runtime in sources]
    found: list[Contradiction | None] = []
    for name, say, meaning in _SAME:  # what was asked for and came out differently
        stated = ((role, last_statement([runtime], name)) for role, runtime in sources)
        said = [(role, fact) for role, fact in stated if fact and fact.value != "auto"]
        if any(first.value != second.value for (_, first), (_, second) in pairwise(said)):
            words = [(f"{role}: {say(fact.value)}" if role else say(fact.value), fact) for role, fact in said]
            found.append(contradiction(name, meaning, *words))
    found += [_context(runtimes), _layers(runtimes), _bytes_of_layers(runtimes, model), _device(runtimes)]
    found += [_threads(runtimes, machine), _vram(runtimes, machine)]
    return tuple(filter(None, found))


def contradiction(about: str, meaning: str, *said: tuple[str, Known[Any]]) -> Contradiction:
    """What sources say against one another: each in words, with the fact that it is by."""
    statements = tuple(Statement(says=words, source=fact.source) for words, fact in said)
    return Contradiction(about=about, statements=statements, meaning=meaning)


def added_contradictions(before: Sequence[Contradiction], more: Sequence[Contradiction]) -> tuple[Contradiction, ...]:
    """Both, without saying the same twice."""
    said = {each.about for each in before}
    return (*before, *(each for each in more if each.about not in said))


def _context(runtimes: Sequence[Runtime]) -> Contradiction | None:
    """Asked for against decided; either may be meant for one slot or for all of them."""
    asked, decided, slots = (last_statement(runtimes, name) for name in ("context_set", "context_length", "slots"))
    if asked is None or decided is None:
        return None
    count = max(1, slots.value) if slots else 1
    per_slot = last_statement(runtimes, "context_per_slot")
    lengths = [decided.value, *([per_slot.value] if per_slot else [])]
    meant = {asked.value, asked.value * count, asked.value // count}
    if any(0 <= length - m < _PADDING * count for m in meant for length in lengths):
        return None
    meaning = "the runtime reduced the context to what fits or the model allows, or another setting won"
    requested = f"a context of {asked.value} tokens was requested"
    return contradiction(
        "context_length", meaning, (requested, asked), (f"the context is {decided.value} tokens", decided)
    )


def _layers(runtimes: Sequence[Runtime]) -> Contradiction | None:
    asked, decided, layers = (last_statement(runtimes, name) for name in ("gpu_layers_set", "gpu_layers", "layers"))
    refused = last_statement(runtimes, "gpu_refused")
    requested = f"{asked.value} GPU layers were requested" if asked else ""
    if asked and asked.value > 0 and refused and (decided is None or not decided.value):
        meaning = "the backend found no usable GPU"
        return contradiction("gpu_layers", meaning, (requested, asked), (f"no GPU was used: {refused.value}", refused))
    if not (asked and decided and layers) or min(asked.value, layers.value) == decided.value:
        return None
    offloaded = f"{decided.value}/{layers.value} layers offloaded"
    meaning = "another setting, or free VRAM, decided"
    return contradiction("gpu_layers", meaning, (requested, asked), (offloaded, decided))


def _bytes_of_layers(runtimes: Sequence[Runtime], model: Model) -> Contradiction | None:
    """The log counts layers; with tensors moved by name, or by the fit, a counted layer may lie elsewhere."""
    decided, layers, buffers = (last_statement(runtimes, name) for name in ("gpu_layers", "layers", "buffers"))
    moved = last_statement(runtimes, "tensor_overrides"), last_statement(runtimes, "overflowing_layers")
    if not (decided and layers and buffers) or any(fact and fact.value for fact in moved):
        return None
    backends, devices = last_statement(runtimes, "backends"), last_statement(runtimes, "devices")
    if backends and backends.value == ["CPU"] and devices and not devices.value:
        return None  # it counts layers even where nobody asked for a device and there is none
    of_model = [buffer for buffer in buffers.value if buffer.kind == "model"]
    weights = model.weights_bytes.value_or(0) or sum(buffer.bytes for buffer in of_model)
    held = sum(buffer.bytes for buffer in of_model if buffer.on_gpu)
    whole, none = decided.value >= layers.value > 0, decided.value == 0
    if not weights or not ((whole and held < _TINY_SHARE * weights) or (none and held > _NOTABLE_WITHOUT_LAYERS)):
        return None
    if held:
        on_gpus = f"{held / GIB:.1f} of the {weights / GIB:.1f} GiB of weights are in GPU buffers"
    else:
        on_gpus = f"none of the {weights / GIB:.1f} GiB of weights is in a GPU buffer"
    device = last_statement(runtimes, "device_set")
    meaning = "parts of the layers, such as experts, were left in system memory" if whole else ""
    if whole and device and device.value == "none":
        meaning = "the device setting `none` disables the GPU, whatever the count says"
    offloaded = f"{decided.value}/{layers.value} layers offloaded"
    return contradiction("buffers", meaning, (offloaded, decided), (on_gpus, buffers))


def _device(runtimes: Sequence[Runtime]) -> Contradiction | None:
    asked, buffers, named = (last_statement(runtimes, name) for name in ("device_set", "buffers", "device_used"))
    if asked is None:
        return None
    if buffers:
        found = dict.fromkeys(b.device for b in buffers.value if b.on_gpu and b.kind in ("model", "kv"))
        used = Known(list(found), buffers.origin, buffers.source)
    elif named:  # by a runtime without such lines
        used = Known([named.value], named.origin, named.source)
    else:
        return None
    wanted = {name.strip().lower() for name in asked.value.split(",")} - {"none", ""}
    others = [name for name in used.value if not any(name.lower().startswith(word) for word in wanted)]
    if not others:
        return None
    in_use = f"{', '.join(used.value)} {'is' if len(used.value) == 1 else 'are'} used"
    requested = f"device {asked.value} was requested"
    return contradiction("device_used", "no device has that name", (requested, asked), (in_use, used))


def _threads(runtimes: Sequence[Runtime], machine: Machine) -> Contradiction | None:
    threads, allowed = last_statement(runtimes, "threads"), machine.cpu.allowed_cpus
    if threads is None or not isinstance(allowed, Known) or threads.value <= allowed.value:
        return None
    said = (f"{threads.value} threads", threads), (f"{allowed.value} CPUs may be used", allowed)
    return contradiction("threads", "the CPUs are oversubscribed", *said)


def _vram(runtimes: Sequence[Runtime], machine: Machine) -> Contradiction | None:
    """Planned bytes against those on the device, while it is loaded."""
    state, planned, buffers = (last_statement(runtimes, name) for name in ("state", "size_vram_bytes", "buffers"))
    if (state and state.value in ("asleep", "failed")) or _is_elsewhere(runtimes, machine):
        return None
    if buffers:
        held = sum(buffer.bytes for buffer in buffers.value if buffer.on_gpu)
        planned = Known(held, buffers.origin, buffers.source)
    seen = _process_vram(runtimes, machine)
    if planned is None or seen is None or planned.value < _NOTABLE_BYTES or seen.value >= _HELD_SHARE * planned.value:
        return None
    meaning = "the driver keeps part in system memory, or the runtime's figures are out of date"
    room = f"{planned.value / GIB:.1f} GiB planned on GPUs"
    return contradiction("vram", meaning, (room, planned), (f"{seen.value / GIB:.1f} GiB of VRAM used", seen))


def _process_vram(runtimes: Sequence[Runtime], machine: Machine) -> Known[int] | None:
    """What the process holds; where no driver names it (a container has other numbers), all that is used at most."""
    gpus, pid = machine.gpus, last_statement(runtimes, "pid")
    if not isinstance(gpus, Known) or not gpus.value:
        return None
    processes = [process for gpu in gpus.value for process in gpu.processes.value_or([])]
    mine = [process.vram_bytes for process in processes if pid and process.pid == pid.value]
    known = [size for size in mine if isinstance(size, Known)]
    if not known:
        known = [gpu.vram_used_bytes for gpu in gpus.value if isinstance(gpu.vram_used_bytes, Known)]
        if len(known) < len(gpus.value):
            return None
    return Known(sum(fact.value for fact in known), known[0].origin, known[0].source)


def _is_elsewhere(runtimes: Sequence[Runtime], machine: Machine) -> bool:
    """Whether a device that holds some of it is none of the GPUs that were listed, such as one beside NVIDIA's."""
    buffers, devices = last_statement(runtimes, "buffers"), last_statement(runtimes, "devices")
    names = [gpu.name.value.casefold() for gpu in machine.gpus.value_or(()) if isinstance(gpu.name, Known)]
    if not buffers or not devices or not names:
        return False
    holding = {buffer.device for buffer in buffers.value if buffer.on_gpu}
    titles = [d.description.casefold() for d in devices.value if d.name in holding and d.description]
    return any(not any(name in title or title in name for name in names) for title in titles)


def last_statement(runtimes: Sequence[Runtime], name: str) -> Known[Any] | None:
    """What the last source that knows says of a fact; a default or an estimate states nothing."""
    facts = (runtime.fact(name) for runtime in reversed(runtimes))
    return next((fact for fact in facts if isinstance(fact, Known) and fact.origin in _STATED), None)
