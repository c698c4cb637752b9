"""Whether a model fits under llama.cpp, and what would: fewer layers, a shorter context, a smaller quant."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, Self

from unslow.facts.blueprint import Blueprint
from unslow.facts.units import GIB, MIB
from unslow.think.adapt.remembered import remembered
from unslow.think.fit.report import KvShown, MemoryShown
from unslow.think.fit.rooms import Room
from unslow.think.fit.shown import Parts, shown_memory
from unslow.think.memory.llama_cpp.cache import LayerCache, layer_caches
from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.memory.llama_cpp.need import Memory, Need, memory_of, needs_without_compute
from unslow.think.memory.llama_cpp.settings import CELLS_PADDING, Settings
from unslow.think.physics.search import largest

DEFAULT_MARGIN_BYTES = GIB
"""What llama.cpp's own fit leaves free on each device."""
_LOADED = 0.97
"""Of a file, what is loaded at least: layers that guess further tokens may be left out."""
_PAIR = 2
"""Of more GPUs a share is no number that halves exactly."""
_SMALL_WORKSPACE, _LARGE_WORKSPACE = 84 * MIB, 202 * MIB
"""What CUDA allocates at the first prompt: for plain attention in one kernel, and for everything else (on an H200)."""

SAME_MEMORY = "host, same memory"
"""The name of the host's memory where a GPU shares it."""


class Question(NamedTuple):
    """A model, the memory there is, and how it is to run."""

    blueprint: Blueprint
    rooms: Sequence[Room]
    host: Room | None
    settings: Settings
    margin_bytes: int = DEFAULT_MARGIN_BYTES

    @property
    def shares(self) -> tuple[float, ...]:
        """What GPUs divide a model by; one gets all and two alike get halves, however large: asked for once, then."""
        free = tuple(float(_free(room)) for room in self.rooms)
        return (1.0,) * len(free) if len(free) <= _PAIR and min(free, default=0) > 0 and len(set(free)) == 1 else free

    @property
    def workspace_bytes(self) -> int:
        """What the first prompt takes beside all buffers."""
        plain = remembered(self.blueprint, "plain", lambda: _is_plain(Hyper(self.blueprint)))
        return _SMALL_WORKSPACE if plain and self.settings.flash_attention is not False else _LARGE_WORKSPACE

    @property
    def least_free_bytes(self) -> int:
        """The margin, or what the first prompt takes, where that is more."""
        return max(self.margin_bytes, self.workspace_bytes)

    @property
    def weights_and_cache_bytes(self) -> float:
        """What it asks of all memories together at least, wherever it lies."""
        weights = sum(tensor.bytes for tensor in self.blueprint.tensors)
        return _LOADED * weights + sum(cache.bytes for cache in layer_caches(Hyper(self.blueprint), self.settings))

    def memory(self, settings: Settings | None = None) -> Memory:
        """What it asks of each device and, at the end, of the host."""
        asked, shares = settings or self.settings, self.shares
        return remembered(self.blueprint, (asked, shares), lambda: memory_of(self.blueprint, asked, shares))

    def left(self, settings: Settings | None = None) -> float:
        """What stays free beyond the margin, where it is tightest; negative where something is lacking."""
        return self._left_by(self.memory(settings).needs)

    def left_or_lacking(self, settings: Settings) -> float:
        """The same, but where weights and cache alone lack room, only what they lack: no graph is laid out for that."""
        left = self.left_without_compute(settings)
        return left if left < 0 else self.left(settings)

    def left_without_compute(self, settings: Settings) -> float:
        """What weights and cache alone leave, which is more than there will be."""
        return self._left_by(needs_without_compute(self.blueprint, settings, self.shares))

    def _left_by(self, needs: Sequence[Need]) -> float:
        *devices, host = needs
        pairs = zip(devices, self.rooms, strict=True)
        spare = [_free(room) - need.total - self.least_free_bytes for need, room in pairs if need.total]
        room = self.host_room(devices)
        if room is not None:
            spare.append(room.usable_bytes - host.total)
        return min(spare, default=0)

    def host_room(self, devices: Sequence[Need]) -> Room | None:
        """The host's memory: where a GPU shares it, what the GPU's buffers leave."""
        shared = [(room, need) for room, need in zip(self.rooms, devices, strict=True) if room.unified]
        if self.host is not None or not shared:
            return self.host
        room, need = shared[0]
        return Room(SAME_MEMORY, room.capacity_bytes, others_bytes=room.others_bytes + need.total)

    def settled(self) -> Self:
        """The same question with flash attention decided, which is then asked for many lengths and placements."""
        if self.settings.flash_attention is None and (memory := self.memory()).kernels.flash_attention:
            settings = self.settings._replace(flash_attention=True)
            remembered(self.blueprint, (settings, self.shares), lambda: memory)  # what was open is the same
            return self._replace(settings=settings)
        return self  # where it was left open and can't be used, the cache is still laid out for it


def shown_needs(question: Question) -> tuple[tuple[MemoryShown, ...], MemoryShown]:
    """The needs beside the memory there is."""
    *devices, host = question.memory().needs
    pairs = zip(devices, question.rooms, strict=True)
    shown = tuple(_shown_device(n, r, question) for n, r in pairs)
    room = question.host_room(devices)
    return shown, shown_memory(room.name if room else "host", _parts(host), room)


def _is_plain(hyper: Hyper) -> bool:
    """Whether every layer attends in the usual way and none has experts."""
    return not hyper.experts and not hyper.is_latent and not any(hyper.recurrent)


def _free(room: Room) -> int:
    """What a device has for buffers, after the runtime's context."""
    return max(0, room.usable_bytes - room.context_bytes)


def _parts(need: Need) -> Parts:
    return Parts(need.weights, need.cache, need.compute)


def _shown_device(need: Need, room: Room, question: Question) -> MemoryShown:
    used = question.workspace_bytes if need.total else 0
    return shown_memory(room.name, _parts(need), room, room.context_bytes, used, question.least_free_bytes)


def most_layers(question: Question) -> int | None:
    """The most layers that the GPUs hold at this context, the output counted as one; None where the rest has no room.

    The GPUs limit the number from above and the host from below, so what fits need not begin at 0.
    """
    everything = question.blueprint.count("block_count") + 1

    def placed(layers: int) -> Settings:
        return question.settings._replace(gpu_layers=layers)

    return _most_on_gpus(question, everything, placed) if question.rooms else 0


def most_context(question: Question) -> int | None:
    """The longest context with this placement, up to what the model was trained for."""
    settings = question.settings
    slots = 1 if settings.unified else settings.slots
    trained = question.blueprint.count("context_length", settings.context) * slots

    def left(steps: int) -> float:
        return question.left_or_lacking(settings._replace(context=steps * CELLS_PADDING))

    steps = largest(slots, max(slots, -(-trained // CELLS_PADDING)), left)
    return None if steps is None else min(steps * CELLS_PADDING, trained)


def fewest_experts_on_host(question: Question) -> int | None:
    """The fewest layers whose experts stay on the host so that the rest fits; None where that does not help."""
    hyper = Hyper(question.blueprint)
    if not hyper.experts or not question.rooms:
        return None

    def placed(kept: int) -> Settings:
        return question.settings._replace(gpu_layers=-1, experts_on_cpu=hyper.layers - kept)

    kept = _most_on_gpus(question, hyper.layers, placed)
    return None if kept is None else hyper.layers - kept


def _most_on_gpus(question: Question, most: int, placed: Callable[[int], Settings]) -> int | None:
    """The largest number that the GPUs hold; None where the host, which then has the least to hold, lacks room.

    Compute buffers are as large as a few layers: the number is looked for a little below what would fit without them.
    """
    gpus_alone = question._replace(host=None)
    top = largest(0, most, lambda number: gpus_alone.left_without_compute(placed(number)))
    if top is None or question.left_without_compute(placed(top)) < 0:
        return None
    low, step = top, 1
    while low > 0 and gpus_alone.left(placed(low)) < 0:
        top, low, step = low - 1, max(0, low - step), 2 * step
    found = largest(low, top, lambda number: gpus_alone.left(placed(number)))
    return found if found is not None and question.left(placed(found)) >= 0 else None


def fitting_settings(question: Question, *, experts_may_move: bool = True) -> Settings | None:
    """The settings with as much on the GPUs as fits, the rest on the host; None where both together lack room.

    Experts stay on the host before whole layers do. Only where nothing leaves the margin is less left free.
    """
    if not may_hold_all(question):
        return None
    for margin in dict.fromkeys((question.margin_bytes, 0)):
        asked = question._replace(margin_bytes=margin)
        ways = _placements(asked, experts_may_move=experts_may_move)
        found = next((s for s in ways if asked.left_or_lacking(s) >= 0), None)
        if found:
            return found
    return None


def may_hold_all(question: Question) -> bool:
    """Whether all memories together are as large as weights and cache, which no placement makes smaller."""
    if question.host is None and not any(room.unified for room in question.rooms):
        return True
    there = sum(room.usable_bytes for room in (*question.rooms, *((question.host,) if question.host else ())))
    shared = sum(room.capacity_bytes - room.others_bytes for room in question.rooms if room.unified)
    return bool(question.weights_and_cache_bytes <= max(there, shared))


def _placements(question: Question, *, experts_may_move: bool) -> Iterator[Settings]:
    """All on the GPUs; then some experts on the host, or all of them and some layers; then whole layers."""
    asked, hyper = question.settings, Hyper(question.blueprint)
    yield asked
    if not question.rooms:
        return
    if experts_may_move and hyper.experts:
        if (experts := fewest_experts_on_host(question._replace(host=None))) is not None:
            yield asked._replace(gpu_layers=-1, experts_on_cpu=experts)
            return  # whole layers are coarser: they leave the host no less
        bare = asked._replace(experts_on_cpu=hyper.layers)
        if layers := most_layers(question._replace(settings=bare)):
            yield bare._replace(gpu_layers=layers)
    if (layers := most_layers(question)) is not None:
        yield asked._replace(gpu_layers=layers)


def shown_cache(question: Question) -> tuple[KvShown, ...]:
    """The cache by kinds of layers."""
    hyper = Hyper(question.blueprint)

    def kind(cache: LayerCache) -> tuple[str, int]:
        if not cache.cells:
            return "state", 0
        if hyper.windowed[cache.layer]:
            return f"window of {hyper.window:,}", cache.cells
        return "latent" if hyper.is_latent else "all tokens", cache.cells

    caches = sorted(layer_caches(hyper, question.settings), key=kind)
    groups = ((k, list(members)) for k, members in groupby(caches, kind))
    return tuple(
        KvShown(what=what, layers=len(members), cells=cells, bytes=sum(c.bytes for c in members))
        for (what, cells), members in groups
    )
