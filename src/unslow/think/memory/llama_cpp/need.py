"""The memory that llama.cpp asks of each device and of the host, and the settings with which it does not start."""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from unslow.catalog.quants import quants
from unslow.facts.model import Blueprint
from unslow.facts.values import pad_to
from unslow.think.memo import remember_once
from unslow.think.memory.llama_cpp.cache import Build, Kernels, layer_caches
from unslow.think.memory.llama_cpp.graph import Node, UnknownLayoutError, block_of, four
from unslow.think.memory.llama_cpp.hyperparameters import Hyper, Settings, hyper_of
from unslow.think.memory.llama_cpp.model_graph import Settling, build_graph, fewest_layers, placed_kinds
from unslow.think.memory.llama_cpp.places import CPU, CUDA, Backend, Places
from unslow.think.memory.llama_cpp.scheduler import Rules, Scheduler, watched_sizes

_F32 = 4
_IN_FLIGHT = 4  # batches at once where several GPUs form a pipeline (GGML_SCHED_MAX_COPIES)
_TRIES = 3  # with few layers, before as many are laid out as surely do
_MOST_SLOTS = 256
_UNSOUND = (UnknownLayoutError, ArithmeticError, LookupError, ValueError)
"""What laying out a graph ends with where a header's numbers do not belong together."""


class Need(NamedTuple):
    """Bytes on one device, or on the host."""

    weights: int
    cache: int
    compute: int

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.compute


class Memory(NamedTuple):
    """All needs, of the devices and at the end of the host, and how they were found."""

    needs: list[Need]
    kernels: Kernels
    estimated: str = ""  # Why the compute buffers are only estimated; empty where they follow from the graph


def memory_of(blueprint: Blueprint, settings: Settings, shares: Sequence[float]) -> Memory:
    """The needs of the devices, whose free memory are the shares, and of the host; UserError for impossible numbers."""
    hyper = hyper_of(blueprint)
    settings = heeded_settings(hyper, settings)
    places = Places(hyper, settings, settings.split or shares)
    backends = backends_of(len(shares))
    weights = weight_bytes(blueprint, places, backends)
    try:
        kernels, estimated = usable_kernels(hyper, settings, places, backends), ""
        compute = compute_bytes(partial(Build, hyper, settings, places, kernels), backends)
    except _UNSOUND as error:
        kernels = Kernels(flash_attention=settings.flash_attention is not False)
        known = isinstance(error, UnknownLayoutError)
        estimated = str(error) if known else "the numbers in its header are inconsistent"
        compute = estimated_compute(hyper, settings, places, kernels)
    caches = cache_bytes(hyper, settings, places, backends)
    needs = [Need(*parts) for parts in zip(weights, caches, compute, strict=True)]
    return Memory(needs, kernels, estimated)


def needs_without_compute(blueprint: Blueprint, settings: Settings, shares: Sequence[float]) -> list[Need]:
    """Weights and caches alone: in a hundredth of the time that laying out a graph takes."""
    hyper = hyper_of(blueprint)
    settings = heeded_settings(hyper, settings)
    places, backends = Places(hyper, settings, settings.split or shares), backends_of(len(shares))
    pairs = zip(weight_bytes(blueprint, places, backends), cache_bytes(hyper, settings, places, backends), strict=True)
    return [Need(weights, cache, 0) for weights, cache in pairs]


def heeded_settings(hyper: Hyper, settings: Settings) -> Settings:
    """The settings as llama.cpp takes them: some decide over flash attention before anything is tried."""
    if not hyper.habits.flash_attention:
        return settings._replace(flash_attention=False)
    if hyper.is_compressed and settings.unified:  # each slot has a cache for the whole context
        settings = settings._replace(context=settings.whole_context * settings.slots, unified=False)
    if settings.flash_attention is None and block_of(settings.value_type)[0] > 1:
        return settings._replace(flash_attention=True)
    return settings


def backends_of(devices: int) -> list[Backend]:
    """So many GPUs, and the CPU."""
    return [*[CUDA] * devices, CPU]


def weight_bytes(blueprint: Blueprint, places: Places, backends: Sequence[Backend]) -> list[int]:
    """The weights of each backend; what several of them read lies on each."""

    def parts() -> list[tuple[str, int, int]]:
        """The name of one tensor for all that are placed alike, and what they take on a GPU and on the host."""
        sums: dict[Hashable, tuple[str, int, int]] = {}
        for tensor in blueprint.tensors:
            group = places.group(tensor)
            name, gpu, host = sums.get(group, (tensor.name, 0, 0))
            on_gpu, on_host = _stored_bytes(tensor.type, tensor.shape, tensor.bytes)
            sums[group] = name, gpu + on_gpu, host + on_host
        return list(sums.values())

    sums = [0] * len(backends)
    for name, on_gpu, on_host in remember_once(blueprint, ("stored", places.by_layers), parts):
        for home in places.copies(name):
            sums[home] += on_host if backends[home].is_cpu else on_gpu
    return sums


@lru_cache(maxsize=4096)  # most layers have tensors of the same few shapes
def _stored_bytes(kind: str, shape: tuple[int, ...], size: int) -> tuple[int, int]:
    """What a tensor takes on a GPU and on the host; an unknown type counts as in its file."""
    if kind not in quants():
        return pad_to(size, CUDA.alignment), pad_to(size, CPU.alignment)
    node = Node("none", kind, four(shape))
    return CUDA.stored_bytes(node), CPU.stored_bytes(node)


def cache_bytes(hyper: Hyper, settings: Settings, places: Places, backends: Sequence[Backend]) -> list[int]:
    """The caches of each backend."""

    def sizes() -> list[tuple[int, int, int]]:
        """Of each layer, on a GPU and on the host."""
        return [
            (cache.layer, sum(map(CUDA.stored_bytes, cache.tables)), sum(map(CPU.stored_bytes, cache.tables)))
            for cache in layer_caches(hyper, settings)
        ]

    sums = [0] * len(backends)
    wherever = settings._replace(gpu_layers=-1, experts_on_cpu=0, overrides=(), split=())
    for layer, on_gpu, on_host in remember_once(hyper.blueprint, ("caches", wherever), sizes):
        home = places.cache(layer)
        sums[home] += on_host if backends[home].is_cpu else on_gpu
    return sums


def usable_kernels(hyper: Hyper, settings: Settings, places: Places, backends: Sequence[Backend]) -> Kernels:
    """The kernels of a model with these settings; flash attention as the user wants it, else like the others."""
    kernels = Kernels(flash_attention=settings.flash_attention is not False)
    # a memory is written back to its layer's cache at once: where all caches lie with layers on GPUs, so do its kernels
    strays = hyper.has_delta_nets and (places.host in places.layers or not settings.cache_on_gpu)
    indexes = hyper.index_length > 0 and (hyper.is_latent or hyper.is_compressed)
    # the kernel, its operation, the tokens of each sequence in the graph that is tried, and whether it must be
    probes = (
        ("flash_attention", "flash_attn", 1, settings.flash_attention is None),
        ("delta_step", "gated_delta_net", 1, strays),
        ("delta_chunk", "gated_delta_net", 16, strays),
        ("indexer", "lightning_indexer", 1, indexes),
        ("stream_sums", "hc_pre", 1, hyper.is_compressed),
        ("stream_weights", "hc_comb", 1, hyper.is_compressed),
        ("stream_writes", "hc_post", 1, hyper.is_compressed),
    )
    layers = fewest_layers(placed_kinds(hyper, places)) if any(is_open for *_, is_open in probes) else []
    tried: dict[tuple[Kernels, int], Build] = {}  # A graph answers every question that is asked of such a one
    for kernel, op, tokens, is_open in probes:
        if not is_open:
            continue
        if (kernels, tokens) not in tried:
            build = Build(hyper, settings, places, kernels, tokens * settings.slots)
            build.layers = layers
            build_graph(build)
            scheduler = Scheduler(backends, Rules(offload=build.settings.offload_ops))
            scheduler.assign(build.graph.nodes, build.graph.leaves)
            tried[kernels, tokens] = build
        fused = tried[kernels, tokens].fused
        elsewhere = any(n.op == op and n.backend != places.layers[layer] for layer, n in fused)
        kernels = kernels._replace(**{kernel: not elsewhere})
    return kernels


def compute_bytes(begin: Callable[[], Build], backends: Sequence[Backend]) -> list[int]:
    """The compute buffers of each backend: of a few layers where the others surely change nothing."""
    build = begin()
    settling = Settling(placed_kinds(build.hyper, build.places, exact=True))
    for _ in range(_TRIES):
        if not settling.is_worth_a_try:
            break
        build.layers = settling.kept
        sizes, states, is_crowded = _lay_out(build, backends)
        if not is_crowded and (not build.ends or settling.settles(states)):
            return sizes
        build = begin()
        if is_crowded:
            build.layers = range(build.hyper.layers)
            break
    return _lay_out(build, backends)[0]


def _lay_out(build: Build, backends: Sequence[Backend]) -> tuple[list[int], list[Hashable], bool]:
    """The buffers, the gaps after each layer, and whether batches in flight have copies in all layers, so all count."""
    build_graph(build)
    settings, places = build.settings, build.places
    # Where several GPUs hold everything, llama.cpp lets them work on several batches at once
    everything = places.host not in places.layers and settings.cache_on_gpu
    plain = everything and not settings.overrides and not settings.experts_on_cpu
    in_flight = _IN_FLIGHT if len(backends) - 1 > 1 and plain else 1
    rules = Rules(settings.offload_ops, in_flight, settings.fuses)
    schedule = Scheduler(backends, rules).schedule(build.graph.nodes, build.graph.leaves)
    sizes, states = watched_sizes(schedule.nodes, schedule.leaves, backends, build.ends)
    return sizes, states, in_flight > 1 and schedule.splits > len(backends)


def estimated_compute(hyper: Hyper, settings: Settings, places: Places, kernels: Kernels) -> list[int]:
    """For each backend, the larger of a layer's tensors and of the logits; fitted to recorded allocations."""
    tokens, cells = settings.tokens, settings.slot_context
    heads = max(hyper.heads, default=0)
    inner = hyper.blueprint.count("feed_forward_length") or 4 * hyper.width
    if hyper.experts:
        inner = max(hyper.experts_used, default=0) * hyper.blueprint.count("expert_feed_forward_length", inner)
    layer = 3 * inner + 2 * hyper.width + heads * hyper.key_length(0)
    mask = 2 * cells if kernels.flash_attention else (4 * heads + 4) * cells
    body = tokens * (_F32 * layer + mask)
    logits = settings.most_outputs * (hyper.vocabulary + hyper.width) * _F32
    inputs = tokens * (_F32 * hyper.width + 2 * cells)
    on_devices = [max(body, logits) if n in places.layers else 0 for n in range(places.host)]
    return [*on_devices, inputs if any(on_devices) else max(body, logits)]


def refusal(hyper: Hyper, settings: Settings) -> str:
    """Why llama.cpp refuses to start; empty where it would."""
    key, value = settings.key_type, settings.value_type
    if settings.slots > _MOST_SLOTS:
        return f"llama.cpp has at most {_MOST_SLOTS} slots"
    if hyper.is_latent and key != value:
        return "keys and values of this model share a row, so their types must be the same"
    if settings.flash_attention is False:
        return "values can only be quantized with flash attention" if block_of(value)[0] > 1 else ""
    for what, kind, length_of in (("key", key, hyper.key_length), ("value", value, hyper.value_length)):
        block = block_of(kind)[0]
        if odd := [n for n in map(length_of, range(hyper.all_layers)) if n % block]:
            return f"{kind.lower()} packs {block} numbers, but a head has {max(odd)} {what} numbers"
    return ""
