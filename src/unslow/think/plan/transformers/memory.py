"""What each card and the host hold under a choice; of every spread the worst end, so that a plan never runs out."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.think.fit.report import MemoryShown
from unslow.think.fit.shown import Parts, shown_memory
from unslow.think.memory.held import Held
from unslow.think.memory.transformers.plan import transformers_memory
from unslow.think.physics.search import largest
from unslow.think.plan.transformers.question import Choice, Question

QUANTIZED_SHARE = 4.5 / 16
"""Of the bytes of a plain cache: 4 bits with a scale and a shift of 16 bits for each 64 numbers (`QuantizedCache`)."""
RESIDUAL_TOKENS = 128
"""The newest tokens, which a quantised cache keeps as they are."""
OFFLOADED_LAYERS = 2
"""Of an offloaded cache on the card: the layer at work and the one that is fetched for it."""
_LARGE_HOST = 2**43
"""Of a host that nobody knows."""


class Laid(NamedTuple):
    """Where everything lies."""

    devices: tuple[Held, ...]
    host: Held
    spilled_bytes: int
    """Weights that no card has room for: they come over the link for every token."""
    cards: int
    """That hold some of the weights."""
    left_bytes: int
    """On the fullest of the devices; below 0 where it has too little."""

    @property
    def fits(self) -> bool:
        """Whether all of it finds room."""
        return self.left_bytes >= 0


def laid_out(question: Question, choice: Choice, tokens: int) -> Laid:
    """The memory for conversations of so many tokens."""
    free = [max(0, room.usable_bytes - question.margin_bytes) for room in question.hardware.rooms]
    host_free = question.hardware.host_room.usable_bytes if question.hardware.host_room else _LARGE_HOST
    used = free[:1] if choice.device_map == "cuda:0" else free
    settings = question.settings(choice, tokens)
    found = transformers_memory(question.shape, question.parts_as(choice.dtype), settings, used, host_free)
    kept = tuple(_kept(question, choice, held, tokens) for held in found.devices)
    moved = sum(held.kv_bytes - less.kv_bytes for held, less in zip(found.devices, kept, strict=True))
    host = found.host._replace(kv_bytes=moved if choice.cache == "offloaded" else 0)
    spilled = found.host.weights_bytes + found.disk_bytes
    left = [space - held.total.high for held, space in zip(kept, used, strict=True)]
    least = -found.disk_bytes if found.disk_bytes else min(*left, host_free - host.total.high)
    return Laid(kept, host, spilled, sum(held.weights_bytes > 0 for held in kept), least)


def _kept(question: Question, choice: Choice, held: Held, tokens: int) -> Held:
    """A card's part with the cache that was chosen; activations stay as they are."""
    if choice.cache == "quantized":
        plain = min(1.0, RESIDUAL_TOKENS / max(1, tokens))
        return held._replace(kv_bytes=round(held.kv_bytes * (plain + (1 - plain) * QUANTIZED_SHARE)))
    if choice.cache == "offloaded":
        share = min(1.0, OFFLOADED_LAYERS / max(1, question.shape.layers))
        return held._replace(kv_bytes=round(held.kv_bytes * share))
    return held


def longest(question: Question, choice: Choice) -> int:
    """The longest conversation, up to the model's own limit, that fits; 0 where none does."""
    return largest(1, question.trained, lambda tokens: laid_out(question, choice, tokens).left_bytes) or 0


def shown_devices(question: Question, choice: Choice, tokens: int) -> tuple[tuple[MemoryShown, ...], MemoryShown]:
    """The cards and the host as the report shows them."""
    laid = laid_out(question, choice, tokens)
    rooms = question.hardware.rooms[: len(laid.devices)]
    devices: Sequence[MemoryShown] = [
        shown_memory(room.name, Parts(h.weights_bytes, h.kv_bytes, h.compute_bytes), room, h.other_bytes)
        for room, h in zip(rooms, laid.devices, strict=True)
    ]
    host = Parts(laid.host.weights_bytes, laid.host.kv_bytes, laid.host.compute_bytes)
    return tuple(devices), shown_memory("host", host, question.hardware.host_room)
