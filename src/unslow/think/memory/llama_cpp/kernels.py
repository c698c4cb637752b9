"""Which fused kernels llama.cpp uses: it tries a small graph, and drops those that land on another device."""

from collections.abc import Sequence

from unslow.think.memory.llama_cpp.backends import Backend
from unslow.think.memory.llama_cpp.build import Build, Kernels
from unslow.think.memory.llama_cpp.folding import placed_kinds
from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.memory.llama_cpp.model_graph import build_graph
from unslow.think.memory.llama_cpp.node import block_of
from unslow.think.memory.llama_cpp.places import Places
from unslow.think.memory.llama_cpp.scheduler import Rules, assign
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.memory.llama_cpp.settling import fewest

_PROBES = (
    ("flash_attention", "flash_attn", 1),
    ("delta_step", "gated_delta_net", 1),
    ("delta_chunk", "gated_delta_net", 16),
    ("indexer", "lightning_indexer", 1),
    ("stream_sums", "hc_pre", 1),
    ("stream_weights", "hc_comb", 1),
    ("stream_writes", "hc_post", 1),
)
"""The kernel, its operation, and the tokens of each sequence in the graph that is tried."""


def heeded(hyper: Hyper, settings: Settings) -> Settings:
    """The settings as llama.cpp takes them: some decide over flash attention before anything is tried."""
    if not hyper.habits.flash_attention:
        return settings._replace(flash_attention=False)
    if hyper.is_compressed and settings.unified:  # each slot has a cache for the whole context
        settings = settings._replace(context=settings.whole_context * settings.slots, unified=False)
    if settings.flash_attention is None and block_of(settings.value_type)[0] > 1:
        return settings._replace(flash_attention=True)
    return settings


def usable_kernels(hyper: Hyper, settings: Settings, places: Places, backends: Sequence[Backend]) -> Kernels:
    """The kernels of a model with these settings; flash attention as the user wants it, else like the others."""
    kernels = Kernels(flash_attention=settings.flash_attention is not False)
    # a memory is written back to its layer's cache at once: where all caches lie with layers on GPUs, so do its kernels
    strays = hyper.has_delta_nets and (places.host in places.layers or not settings.cache_on_gpu)
    open_questions = {
        "flash_attention": settings.flash_attention is None,
        "delta_step": strays,
        "delta_chunk": strays,
        "indexer": hyper.index_length > 0 and (hyper.is_latent or hyper.is_compressed),
        **dict.fromkeys(("stream_sums", "stream_weights", "stream_writes"), hyper.is_compressed),
    }
    layers = fewest(placed_kinds(hyper, places)) if any(open_questions.values()) else []
    tried: dict[tuple[Kernels, int], Build] = {}
    """A graph answers every question that is asked of such a one."""
    for kernel, op, tokens in _PROBES:
        if not open_questions[kernel]:
            continue
        if (kernels, tokens) not in tried:
            build = Build(hyper, settings, places, kernels, tokens * settings.slots)
            build.layers = layers
            tried[kernels, tokens] = _tried(build, backends)
        fused = tried[kernels, tokens].fused
        elsewhere = any(n.op == op and n.backend != places.layer(layer) for layer, n in fused)
        kernels = kernels._replace(**{kernel: not elsewhere})
    return kernels


def _tried(build: Build, backends: Sequence[Backend]) -> Build:
    """The graph, and where each of its nodes is computed."""
    build_graph(build)
    assign(build.graph.nodes, build.graph.leaves, backends, Rules(offload=build.settings.offload_ops))
    return build
