"""Puts facts about an NVIDIA GPU together, whichever way they were read."""

from collections.abc import Mapping
from typing import Any, get_type_hints

from unslow.facts.bounded import fitting
from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.values import Fact, Unknown, failed, reported
from unslow.look.logs.nvidia_reasons import reason_bits

_TYPES = get_type_hints(Gpu, include_extras=True)
FACTS = tuple(name for name in Gpu.__struct_fields__ if name != "index")


def nvidia_gpu(index: int, source: str, facts: Mapping[str, Fact[Any]]) -> Gpu:
    """The GPU; a fact outside the bounds that its type declares becomes a failed look instead of a false number."""
    checked: dict[str, Any] = {name: fitting(fact, _TYPES[name]) for name, fact in facts.items()}
    return Gpu(index=index, vendor=reported("NVIDIA", source), **checked)


def gpu_without_facts(index: int, why: Unknown, **known: Fact[Any]) -> Gpu:
    """A GPU that is there and can't be asked, for one reason."""
    facts: dict[str, Any] = {**dict.fromkeys(FACTS, why), **known}
    return Gpu(index=index, **facts)


def reasons(names: list[str], source: str) -> dict[str, Fact[Any]]:
    """Both facts about event reasons, from their names."""
    bits = reason_bits(names)
    return {
        "event_reasons": reported(names, source),
        "event_reason_bits": failed(f"no bit is known for {names}") if bits is None else reported(bits, source),
    }


def gpu_process(pid: int, name: Fact[Any], vram_bytes: Fact[Any]) -> GpuProcess:
    """A process on a GPU, its memory checked like every other fact."""
    return GpuProcess(pid=pid, name=name, vram_bytes=fitting(vram_bytes, _TYPES["vram_used_bytes"]))
