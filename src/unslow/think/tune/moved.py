"""A layer more or less on the GPU, and whole layers against feed-forward matrices: steps of where weights lie.

More to the host is always safe. Less of it needs memory, which is counted from the option's own figures and the sizes
of the model's tensors, the cache of a layer with it.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

from unslow.facts.knob import Knob
from unslow.think.plan.llama_cpp.placing import Placing, patterns
from unslow.think.tune.candidate import Around, Settings
from unslow.think.tune.neighbours import Step

_LAYERS = re.compile(r"blk\\?\.\(?([\d|]+)\)?\\?\.")


def moves_around(around: Around) -> Iterator[Step]:
    """Every step of a plan that says itself where things lie; none where llama.cpp places them, or several GPUs do."""
    layers = around.settings.get(Knob.GPU_LAYERS)
    if around.is_on_cpu or not isinstance(layers, int) or layers < 0 or Knob.TENSOR_SPLIT in around.settings:
        return
    yield from _by_a_layer(around, layers)
    yield from _by_experts(around)
    yield from _other_kind(around, layers)


def _by_a_layer(around: Around, layers: int) -> Iterator[Step]:
    whole = around.hand.layers + 1 - layers
    if 0 < whole <= around.hand.layers and around.spare_bytes >= full_bytes(around, [whole - 1]):
        yield "one layer more on the GPU", {Knob.GPU_LAYERS: layers + 1}
    if whole < around.hand.layers:
        yield "one layer fewer on the GPU", {Knob.GPU_LAYERS: layers - 1}


def _by_experts(around: Around) -> Iterator[Step]:
    now = around.settings.get(Knob.EXPERTS_ON_CPU)
    if not isinstance(now, int) or now <= 0:
        return
    if now < around.hand.layers:
        yield "the experts of one layer more with the host", {Knob.EXPERTS_ON_CPU: now + 1}
    if around.spare_bytes >= around.hand.pieces.layers[min(now, around.hand.layers) - 1].piece_bytes:
        yield "the experts of one layer fewer with the host", {Knob.EXPERTS_ON_CPU: now - 1 or None}


def _other_kind(around: Around, layers: int) -> Iterator[Step]:
    """The same memory given up the other way: whole layers instead of their matrices, or the reverse."""
    apart = layers_apart(around)
    whole = around.hand.layers + 1 - layers
    if apart:
        count = _fewest([full_bytes(around, [layer]) for layer in apart], _apart_bytes(around, apart))
        if count is not None:
            away: Settings = {Knob.TENSOR_OVERRIDE: None, Knob.EXPERTS_ON_CPU: None}
            yield f"{count} whole layers more with the host instead", {**away, Knob.GPU_LAYERS: layers - count}
    elif 0 < whole <= around.hand.layers and around.settings.get(Knob.KV_OFFLOAD) is not False:
        given_up = full_bytes(around, range(whole))
        count = _fewest([layer.piece_bytes for layer in around.hand.pieces.layers], given_up)
        if count is not None:
            yield _without_pieces(around, count)


def _without_pieces(around: Around, count: int) -> Step:
    pieces = around.hand.pieces
    settings: Settings = {Knob.GPU_LAYERS: around.hand.layers + 1}
    if pieces.is_sparse:
        return f"the experts of {count} layers with the host instead", {**settings, Knob.EXPERTS_ON_CPU: count}
    names = ",".join(f"{pattern}=CPU" for pattern in patterns(Placing(0, count), pieces))
    return f"the feed-forward of {count} layers with the host instead", {**settings, Knob.TENSOR_OVERRIDE: names}


def layers_apart(around: Around) -> list[int]:
    """The layers on the GPU of which some matrices lie with the host."""
    layers = around.settings.get(Knob.GPU_LAYERS)
    first = around.hand.layers + 1 - layers if isinstance(layers, int) else 0
    named = _LAYERS.findall(str(around.settings.get(Knob.TENSOR_OVERRIDE) or ""))
    found = {int(number) for group in named for number in group.split("|") if number}
    experts = around.settings.get(Knob.EXPERTS_ON_CPU)
    found |= set(range(experts)) if isinstance(experts, int) else set()
    return [layer for layer in sorted(found) if first <= layer < around.hand.layers]


def _apart_bytes(around: Around, apart: Sequence[int]) -> int:
    """At most so much of these layers lies with the host."""
    return sum(around.hand.pieces.layers[layer].piece_bytes for layer in apart)


def full_bytes(around: Around, layers: Sequence[int]) -> int:
    """Of these layers, weights and cache; the cache is taken as if all layers of the GPU had as much."""
    pieces = around.hand.pieces.layers
    kept = sum(device.kv_bytes for device in around.option.devices) if around.option else 0
    on_gpu = around.settings.get(Knob.GPU_LAYERS)
    each = kept / max(1, min(around.hand.layers, on_gpu if isinstance(on_gpu, int) else around.hand.layers) - 1)
    return int(sum(pieces[n].rest_bytes + pieces[n].piece_bytes + each for n in layers))


def _fewest(sizes: Sequence[int], needed: float) -> int | None:
    """How many from the first on have so much together; None where all have less."""
    return next((count for count, total in enumerate(accumulate(sizes), 1) if total >= needed), None)
