"""Whether a model fits under llama.cpp, and what would: fewer layers, a shorter context, a smaller quant."""

from collections.abc import Callable, Iterator
from itertools import groupby

from unslow.think.fit.report import KvShown, MemoryShown
from unslow.think.fit.shown import Parts, shown_memory
from unslow.think.hardware import Room
from unslow.think.memory.llama_cpp.cache import LayerCache, layer_caches
from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.memory.llama_cpp.need import Need
from unslow.think.memory.llama_cpp.settings import CELLS_PADDING, Settings
from unslow.think.physics.search import largest
from unslow.think.setup import Setup


def shown_needs(setup: Setup) -> tuple[tuple[MemoryShown, ...], MemoryShown]:
    """The needs beside the memory there is."""
    *devices, host = setup.memory().needs
    pairs = zip(devices, setup.hardware.rooms, strict=True)
    shown = tuple(_shown_device(n, r, setup) for n, r in pairs)
    room = setup.host_room(devices)
    return shown, shown_memory(room.name if room else "host", _parts(host), room)


def _parts(need: Need) -> Parts:
    return Parts(need.weights, need.cache, need.compute)


def _shown_device(need: Need, room: Room, setup: Setup) -> MemoryShown:
    used = setup.workspace_bytes if need.total else 0
    return shown_memory(room.name, _parts(need), room, room.context_bytes, used, setup.least_free_bytes)


def most_layers(setup: Setup) -> int | None:
    """The most layers that the GPUs hold at this context, the output counted as one; None where the rest has no room.

    The GPUs limit the number from above and the host from below, so what fits need not begin at 0.
    """
    everything = setup.blueprint.count("block_count") + 1

    def placed(layers: int) -> Settings:
        return setup.settings._replace(gpu_layers=layers)

    return _most_on_gpus(setup, everything, placed) if setup.hardware.rooms else 0


def most_context(setup: Setup) -> int | None:
    """The longest context with this placement, up to what the model was trained for."""
    settings = setup.settings
    slots = 1 if settings.unified else settings.slots
    trained = setup.blueprint.count("context_length", settings.context) * slots

    def left(steps: int) -> float:
        return setup.left_or_lacking(settings._replace(context=steps * CELLS_PADDING))

    steps = largest(slots, max(slots, -(-trained // CELLS_PADDING)), left)
    return None if steps is None else min(steps * CELLS_PADDING, trained)


def fewest_experts_on_host(setup: Setup) -> int | None:
    """The fewest layers whose experts stay on the host so that the rest fits; None where that does not help."""
    hyper = Hyper(setup.blueprint)
    if not hyper.experts or not setup.hardware.rooms:
        return None

    def placed(kept: int) -> Settings:
        return setup.settings._replace(gpu_layers=-1, experts_on_cpu=hyper.layers - kept)

    kept = _most_on_gpus(setup, hyper.layers, placed)
    return None if kept is None else hyper.layers - kept


def _most_on_gpus(setup: Setup, most: int, placed: Callable[[int], Settings]) -> int | None:
    """The largest number that the GPUs hold; None where the host, which then has the least to hold, lacks room.

    Compute buffers are as large as a few layers: the number is looked for a little below what would fit without them.
    """
    gpus_alone = setup.on_gpus_alone()
    top = largest(0, most, lambda number: gpus_alone.left_without_compute(placed(number)))
    if top is None or setup.left_without_compute(placed(top)) < 0:
        return None
    low, step = top, 1
    while low > 0 and gpus_alone.left(placed(low)) < 0:
        top, low, step = low - 1, max(0, low - step), 2 * step
    found = largest(low, top, lambda number: gpus_alone.left(placed(number)))
    return found if found is not None and setup.left(placed(found)) >= 0 else None


def fitting_settings(setup: Setup, *, experts_may_move: bool = True) -> Settings | None:
    """The settings with as much on the GPUs as fits, the rest on the host; None where both together lack room.

    Experts stay on the host before whole layers do. Only where nothing leaves the margin is less left free.
    """
    if not setup.may_fit:
        return None
    for margin in dict.fromkeys((setup.margin_bytes, 0)):
        asked = setup._replace(margin_bytes=margin)
        ways = _placements(asked, experts_may_move=experts_may_move)
        found = next((s for s in ways if asked.left_or_lacking(s) >= 0), None)
        if found:
            return found
    return None


def _placements(setup: Setup, *, experts_may_move: bool) -> Iterator[Settings]:
    """All on the GPUs; then some experts on the host, or all of them and some layers; then whole layers."""
    asked, hyper = setup.settings, Hyper(setup.blueprint)
    yield asked
    if not setup.hardware.rooms:
        return
    if experts_may_move and hyper.experts:
        if (experts := fewest_experts_on_host(setup.on_gpus_alone())) is not None:
            yield asked._replace(gpu_layers=-1, experts_on_cpu=experts)
            return  # whole layers are coarser: they leave the host no less
        bare = asked._replace(experts_on_cpu=hyper.layers)
        if layers := most_layers(setup._replace(settings=bare)):
            yield bare._replace(gpu_layers=layers)
    if (layers := most_layers(setup)) is not None:
        yield asked._replace(gpu_layers=layers)


def shown_cache(setup: Setup) -> tuple[KvShown, ...]:
    """The cache by kinds of layers."""
    hyper = Hyper(setup.blueprint)

    def kind(cache: LayerCache) -> tuple[str, int]:
        if not cache.cells:
            return "state", 0
        if hyper.windowed[cache.layer]:
            return f"window of {hyper.window:,}", cache.cells
        return "latent" if hyper.is_latent else "all tokens", cache.cells

    caches = sorted(layer_caches(hyper, setup.settings), key=kind)
    groups = ((k, list(members)) for k, members in groupby(caches, kind))
    return tuple(
        KvShown(what=what, layers=len(members), cells=cells, bytes=sum(c.bytes for c in members))
        for (what, cells), members in groups
    )
