"""Whether a setup fits llama.cpp, and what would: fewer layers on the GPUs, a shorter context."""

from collections.abc import Callable, Iterator
from itertools import groupby

from unslow.think.fit.answers import shown_memory
from unslow.think.fit.report import KvShown, MemoryShown
from unslow.think.memory.llama_cpp.cache import LayerCache, layer_caches
from unslow.think.memory.llama_cpp.hyperparameters import CELLS_PADDING, Hyper, Settings
from unslow.think.physics.placement import largest_fitting
from unslow.think.setup import Setup

_MASK_BYTES = 8  # Of a mask and its copy, for each token of context and of a micro-batch: more than any backend has
_STEP = 1024


def shown_needs(setup: Setup) -> tuple[tuple[MemoryShown, ...], MemoryShown]:
    """The needs beside the memory there is."""
    *devices, host = setup.memory().needs
    later = setup.workspace_bytes
    margin = max(setup.margin_bytes, later)
    shown = tuple(
        shown_memory(need, room, room.context_bytes, later if need.total else 0, margin)
        for need, room in zip(devices, setup.hardware.rooms, strict=True)
    )
    return shown, shown_memory(host, setup.host_room(devices))


def shown_cache(setup: Setup) -> tuple[KvShown, ...]:
    """The cache by kinds of layers."""
    hyper = Hyper(setup.blueprint)

    def kind(cache: LayerCache) -> tuple[str, int]:
        if not cache.cells:
            return "state", 0
        if hyper.layer_windows[cache.layer]:
            return f"window of {hyper.window:,}", cache.cells
        return "latent" if hyper.is_latent else "all tokens", cache.cells

    caches = sorted(layer_caches(hyper, setup.settings), key=kind)
    groups = ((k, list(members)) for k, members in groupby(caches, kind))
    return tuple(
        KvShown(what=what, layers=len(members), cells=cells, bytes=sum(c.bytes for c in members))
        for (what, cells), members in groups
    )


def most_layers(setup: Setup) -> int | None:
    """The most layers that GPUs hold at this context, the output counted as one; None where the rest has no room."""
    # The GPUs limit the number from above and the host from below, so what fits need not begin at 0.
    if not setup.hardware.rooms:
        return 0
    everything = setup.blueprint.count("block_count") + 1
    return _most_on_gpus(setup, everything, lambda layers: setup.settings._replace(gpu_layers=layers))


def most_context(setup: Setup) -> int | None:
    """The longest context with this placement, up to what the model was trained for."""
    settings = setup.settings
    slots = 1 if settings.unified else settings.slots
    trained = setup.blueprint.count("context_length", settings.context) * slots
    most = max(slots, -(-trained // CELLS_PADDING))
    steps = largest_fitting(slots, most, lambda n: setup.left_or_lacking(settings._replace(context=n * CELLS_PADDING)))
    return None if steps is None else min(steps * CELLS_PADDING, trained)


def longest_context(setup: Setup) -> int | None:
    """About the longest that fits with everything on the GPUs, on the safe side; None where what is asked does not."""
    left, settings = setup.left(), setup.settings
    if left < 0:
        return None
    trained = setup.blueprint.count("context_length", settings.context)
    hyper, lengths = Hyper(setup.blueprint), (settings.context, 2 * settings.context)
    caches = (layer_caches(hyper, settings._replace(context=length)) for length in lengths)
    once, twice = (sum(cache.bytes for cache in layers) for layers in caches)
    per_token = (twice - once) / settings.context + _MASK_BYTES * settings.micro_batch
    tokens = settings.context + int(left / per_token)
    return min(trained, tokens // _STEP * _STEP) if tokens >= _STEP else tokens


def fitting_settings(setup: Setup, *, experts_may_move: bool = True) -> Settings | None:
    """The settings with as much on the GPUs as fits, the rest on the host; None where both together lack room."""
    # Experts stay on the host before whole layers do. Only where nothing leaves the margin is less left free.
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

        def with_experts(layers: int) -> Settings:
            return asked._replace(gpu_layers=-1, experts_on_cpu=hyper.layers - layers)

        if (most := _most_on_gpus(setup.on_gpus_alone(), hyper.layers, with_experts)) is not None:
            yield with_experts(most)
            return  # whole layers are coarser: they leave the host no less
        bare = asked._replace(experts_on_cpu=hyper.layers)
        if layers := most_layers(setup._replace(settings=bare)):
            yield bare._replace(gpu_layers=layers)
    if (layers := most_layers(setup)) is not None:
        yield asked._replace(gpu_layers=layers)


def _most_on_gpus(setup: Setup, most: int, placed: Callable[[int], Settings]) -> int | None:
    """The largest number that the GPUs hold; None where the host, which then has the least to hold, lacks room."""
    # Compute buffers are as large as a few layers: the number is looked for a little below what would fit without them.
    gpus_alone = setup.on_gpus_alone()
    top = largest_fitting(0, most, lambda number: gpus_alone.left_without_compute(placed(number)))
    if top is None or setup.left_without_compute(placed(top)) < 0:
        return None
    low, step = top, 1
    while low > 0 and gpus_alone.left(placed(low)) < 0:
        top, low, step = low - 1, max(0, low - step), 2 * step
    found = largest_fitting(low, top, lambda number: gpus_alone.left(placed(number)))
    return found if found is not None and setup.left(placed(found)) >= 0 else None
