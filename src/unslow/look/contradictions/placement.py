"""Layers that were asked for, layers that were counted, and the bytes that went with them."""

from collections.abc import Sequence

from unslow.facts.model import Model
from unslow.facts.runtime import Buffer, Runtime
from unslow.facts.snapshot import Contradiction, Statement
from unslow.facts.units import MIB
from unslow.facts.values import Known
from unslow.look.contradictions.stated import stated, statement

_TINY_SHARE = 0.5  # of the weights, where every layer is said to be on a GPU
_NOTABLE_BYTES = 64 * MIB


def placement_contradictions(runtimes: Sequence[Runtime], model: Model) -> list[Contradiction]:
    """Layers against what was asked for, against the buffers, and devices against the one that was named."""
    return [c for c in (_layers(runtimes), _bytes_of_layers(runtimes, model), _device(runtimes)) if c]


def _layers(runtimes: Sequence[Runtime]) -> Contradiction | None:
    asked, decided, layers = (stated(runtimes, name) for name in ("gpu_layers_set", "gpu_layers", "layers"))
    refused = stated(runtimes, "gpu_refused")
    if asked and asked.value > 0 and refused and (decided is None or not decided.value):
        statements = (statement(asked, _asked), statement(refused, lambda text: f"no GPU was used: {text}"))
        return Contradiction(about="gpu_layers", statements=statements, meaning="the backend found no usable GPU")
    if not (asked and decided and layers) or min(asked.value, layers.value) == decided.value:
        return None
    statements = (
        statement(asked, _asked),
        Statement(says=f"{decided.value} of {layers.value} layers are on GPUs", source=decided.source),
    )
    return Contradiction(about="gpu_layers", statements=statements, meaning="another setting, or the room, decided")


def _asked(layers: int) -> str:
    return f"{layers} layers on GPUs were asked for"


def _bytes_of_layers(runtimes: Sequence[Runtime], model: Model) -> Contradiction | None:
    """The log counts layers; with tensors moved by name, or by the fit, a counted layer may lie elsewhere."""
    decided, layers, buffers = (stated(runtimes, name) for name in ("gpu_layers", "layers", "buffers"))
    moved = stated(runtimes, "tensor_overrides"), stated(runtimes, "overflowing_layers")
    if not (decided and layers and buffers) or any(fact and fact.value for fact in moved):
        return None
    weights = model.weights_bytes.value_or(0) or _sum(buffers.value, on_gpu=True) + _sum(buffers.value, on_gpu=False)
    held = _sum(buffers.value, on_gpu=True)
    whole, none = decided.value >= layers.value > 0, decided.value == 0
    if not weights or not ((whole and held < _TINY_SHARE * weights) or (none and held > _NOTABLE_BYTES)):
        return None
    statements = (
        Statement(says=f"{decided.value} of {layers.value} layers are on GPUs", source=decided.source),
        Statement(says=f"{held} of {weights} bytes of weights are in buffers of GPUs", source=buffers.source),
    )
    meaning = "parts of the layers, such as experts, were left in system memory" if whole else ""
    return Contradiction(about="buffers", statements=statements, meaning=meaning)


def _sum(buffers: list[Buffer], *, on_gpu: bool) -> int:
    return sum(buffer.bytes for buffer in buffers if buffer.kind == "model" and buffer.on_gpu is on_gpu)


def _device(runtimes: Sequence[Runtime]) -> Contradiction | None:
    asked = stated(runtimes, "device_set")
    used = _devices_used(runtimes)
    if asked is None or used is None:
        return None
    wanted = {name.strip().lower() for name in asked.value.split(",")} - {"none", ""}
    strangers = [name for name in used.value if not any(name.lower().startswith(word) for word in wanted)]
    if not strangers:
        return None
    statements = (
        statement(asked, lambda text: f"the device {text} was asked for"),
        statement(used, lambda names: f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} used"),
    )
    return Contradiction(about="device_used", statements=statements, meaning="the device was not found by that name")


def _devices_used(runtimes: Sequence[Runtime]) -> Known[list[str]] | None:
    """By what was allocated on GPUs; a runtime without such lines may name its device."""
    buffers, named = stated(runtimes, "buffers"), stated(runtimes, "device_used")
    if buffers:
        found = dict.fromkeys(b.device for b in buffers.value if b.on_gpu and b.kind in ("model", "kv"))
        return Known(list(found), buffers.origin, buffers.source)
    return Known([named.value], named.origin, named.source) if named else None
