"""What fit shows of every runtime: the needs of a memory beside its size, the verdict, and the rule of thumb."""

import re
from collections.abc import Sequence

from unslow.facts.values import GIB
from unslow.think.fit.report import MemoryShown, RuleShown, Verdict
from unslow.think.hardware import Room
from unslow.think.memory.footprint import DeviceBytes
from unslow.think.memory.llama_cpp.need import Need

_MUCH = 4 * GIB  # a host has so much; a model that asks more of one with unknown memory can't be judged
FITS: dict[Verdict, bool | None] = {
    "fits": True, "tight": True, "partly": False, "does_not_fit": False, "cannot_tell": None
}  # fmt: skip
_SHARE = 1.25
_WHOLE_BITS = {"F32": 32, "F16": 16, "BF16": 16, "FP16": 16, "FP32": 32, "MXFP4": 4, "NVFP4": 4, "AWQ": 4, "GPTQ": 4}


def shown_memory(need: Need, room: Room | None, context: int = 0, used_later: int = 0, margin: int = 0) -> MemoryShown:
    """The need in a room, which is the host's where its size is unknown.

    `context` lies there before any buffer, `used_later` is taken by the first prompt.
    """
    total = need.total
    sizes = {"weights_bytes": need.weights, "kv_bytes": need.cache, "compute_bytes": need.compute}
    if room is None:
        return MemoryShown(name="host", **sizes, total_bytes=total, free_bytes=None, fits=None)
    left = room.usable_bytes - context - total
    return MemoryShown(
        name=room.name, **sizes, total_bytes=total, free_bytes=max(0, left), fits=left >= used_later,
        lacking_bytes=max(0, used_later - left), capacity_bytes=room.capacity_bytes, others_bytes=room.others_bytes,
        reserve_bytes=room.reserve_bytes + context, margin_bytes=margin,
    )  # fmt: skip


def shown_held(held: DeviceBytes, room: Room | None) -> MemoryShown:
    """What a runtime holds in a room, with what lies beside tensors as there before any buffer."""
    return shown_memory(Need(held.weights_bytes, held.kv_bytes, held.compute_bytes), room, held.other.mid)


def verdict_of(devices: Sequence[MemoryShown], host: MemoryShown, *, layers_fit: bool) -> Verdict:
    """The verdict; `layers_fit` is whether GPUs and host together would hold it, placed in another way."""
    if any(memory.fits is False for memory in (*devices, host)):
        return "partly" if layers_fit else "does_not_fit"
    if host.fits is None and host.total_bytes > _MUCH:
        return "cannot_tell"
    tight = any((d.free_bytes or 0) < d.margin_bytes for d in devices if d.total_bytes)
    return "tight" if tight else "fits"


def rule_of_thumb(parameters: int, quant: str, room_bytes: int | None, needs_bytes: int) -> RuleShown | None:
    """What it says of a quant by the digit in its name; None where the name has none."""
    digit = re.search(r"(?:Q|FP|INT)(\d)", quant.upper())
    bits = next((b for name, b in _WHOLE_BITS.items() if quant.upper().startswith(name)), int(digit[1]) if digit else 0)
    if not bits or not parameters:
        return None
    says = int(parameters * bits / 8 * _SHARE)
    text = f"{parameters / 1e9:.1f}B parameters x {bits} bits x {_SHARE}"
    fits = None if room_bytes is None else says <= room_bytes
    return RuleShown(text=text, says_bytes=says, says_fits=fits, needs_bytes=needs_bytes)
