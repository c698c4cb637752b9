"""What a runtime was told, what it decided, and what it allocated."""

from typing import Any, Literal

import msgspec

from unslow.facts.machine import Facts
from unslow.facts.values import NOT_LOOKED, Amount, Bytes, Count, Fact, Fraction

IN_BATCHES = ("vLLM", "SGLang", "TGI")
"""Names of runtimes that are made to answer many requests at once, and do so without being told how many."""
ALL_LAYERS = 9999  # Of `gpu_layers_set` where all are asked for (`-ngl all`, `max`, -1): more than any model has
SO_FAR = "over all requests so far"
"""How the source of a mean ends that a server counted over all of its work, whatever it did at the same time."""


class Buffer(Facts, frozen=True, kw_only=True):
    """Memory that the runtime says it allocated; `device` is the runtime's own name, such as CUDA0 or CPU_Mapped."""

    device: str
    kind: Literal["model", "kv", "state", "compute", "output"]
    bytes: Bytes
    on_gpu: bool


class SeenDevice(Facts, frozen=True, kw_only=True):
    """A device as the runtime saw it before it loaded the model."""

    name: str
    description: str = ""
    total_bytes: Fact[Bytes] = NOT_LOOKED
    free_bytes: Fact[Bytes] = NOT_LOOKED
    library: str = ""  # The backend that offers it, such as CUDA, ROCm, Vulkan, Metal or cpu
    integrated: Fact[bool] = NOT_LOOKED
    compute_capability: Fact[str] = NOT_LOOKED
    unaccounted_bytes: Fact[Bytes] = NOT_LOOKED
    """In use and not the runtime's own, by its account at the end: other processes and the driver."""


class AllocationFailure(Facts, frozen=True, kw_only=True):
    """The allocation that ended a load."""

    device: str
    what: Literal["weights", "kv_cache", "compute_buffer", "unknown"]
    asked_bytes: Fact[Bytes] = NOT_LOOKED
    message: str


class PastLoad(Facts, frozen=True, kw_only=True):
    """One of several loads in a log, in their order."""

    at: str = ""
    model: Fact[str] = NOT_LOOKED
    context_length: Fact[Count] = NOT_LOOKED
    gpu_layers: Fact[Count] = NOT_LOOKED
    layers: Fact[Count] = NOT_LOOKED
    free_bytes: Fact[Bytes] = NOT_LOOKED  # What was free on the GPUs before it, all together
    asked_bytes: Fact[Bytes] = NOT_LOOKED  # The runtime's own estimate of the whole model on GPUs
    seconds: Fact[Amount] = NOT_LOOKED
    settings: str = ""
    """What else it was started with, as written, without what every start has of its own, such as a port."""
    requests: Fact[Count] = NOT_LOOKED  # Requests that the server answered until the next load
    used_until: str = ""  # When it answered the last of them, by the log's own clock
    stopped: bool = False  # Whether a request without a prompt came last, as `ollama stop` sends one to unload a model
    expired: bool = False  # Whether it was unloaded because no request came for a while
    failed: bool = False  # Whether it ended before the model could answer
    after_start: bool = False  # Whether it is the first of a server that had just started
    source: str


class ServerProcess(Facts, frozen=True, kw_only=True):
    """Its process: how it was started, where it answers, and what the system lets it use."""

    pid: Fact[Count] = NOT_LOOKED
    url: Fact[str] = NOT_LOOKED
    command: Fact[list[str]] = NOT_LOOKED
    environment: Fact[dict[str, str]] = NOT_LOOKED
    log_path: Fact[str] = NOT_LOOKED
    log_level: Fact[Count] = NOT_LOOKED
    system: Fact[str] = NOT_LOOKED  # The operating system that it runs on, where that is not the one of this machine
    container: Fact[str] = NOT_LOOKED  # What it runs in, such as docker, podman or kubernetes
    unit: Fact[str] = NOT_LOOKED
    """The service of systemd that starts it, a user's with `--user` before it; not found where a shell did."""
    front: Fact[str] = NOT_LOOKED
    """What stands before it and passes requests on, such as a router or llama-swap, and where."""
    metrics_endpoint: Fact[bool] = NOT_LOOKED
    priority: Fact[int] = NOT_LOOKED
    allowed_cpus: Fact[Count] = NOT_LOOKED  # How many processors its own process may run on, by its cpuset and affinity
    quota_cpus: Fact[Amount] = NOT_LOOKED  # How many processors' time its control group may use
    memory_limit_bytes: Fact[Bytes] = NOT_LOOKED
    """How much memory its control group may use; the page cache of what it reads counts."""
    resident_bytes: Fact[Bytes] = NOT_LOOKED
    bytes_by_node: Fact[dict[str, Bytes]] = NOT_LOOKED
    """Where its memory is, mapped files included: by the number of the memory node."""
    disk_read_bytes: Fact[Bytes] = NOT_LOOKED
    """What disks have given it since it started; what was in memory already is not counted."""


class Build(Facts, frozen=True, kw_only=True):
    """What it was compiled for."""

    features: Fact[list[str]] = NOT_LOOKED  # Instruction sets that the build uses, of the line `system_info`
    openmp: Fact[bool] = NOT_LOOKED  # Whether its threads are those of OpenMP, by the same line
    architectures: Fact[list[str]] = NOT_LOOKED  # GPU architectures that the build was compiled for
    type: Fact[str] = NOT_LOOKED
    backends: Fact[list[str]] = NOT_LOOKED


class Placement(Facts, frozen=True, kw_only=True):
    """Which part of the model is on which device, as set and as decided."""

    gpu_layers_set: Fact[int] = NOT_LOOKED  # As asked for, such as `-ngl 28`
    gpu_layers: Fact[Count] = NOT_LOOKED  # As the runtime reports, such as `offloaded 28/33 layers to GPU`
    layers: Fact[Count] = NOT_LOOKED  # All layers that the runtime counts, the output as one of them
    overflowing_layers: Fact[Count] = NOT_LOOKED
    output_on_gpu: Fact[bool] = NOT_LOOKED
    tensor_overrides: Fact[list[str]] = NOT_LOOKED
    device_set: Fact[str] = NOT_LOOKED
    device_used: Fact[str] = NOT_LOOKED  # The device that it chose, where it says that it chose
    devices: Fact[list[SeenDevice]] = NOT_LOOKED
    software_renderer: Fact[str] = NOT_LOOKED  # A CPU posing as a GPU that its process computes on, such as llvmpipe
    split_mode: Fact[str] = NOT_LOOKED  # none, layer, row or tensor
    tensor_split: Fact[list[float]] = NOT_LOOKED
    main_gpu: Fact[Count] = NOT_LOOKED
    tensor_parallel: Fact[Count] = NOT_LOOKED
    pipeline_parallel: Fact[Count] = NOT_LOOKED
    cpu_offload_bytes: Fact[Bytes] = NOT_LOOKED
    op_offload: Fact[bool] = NOT_LOOKED
    graph_splits: Fact[Count] = NOT_LOOKED
    fit: Fact[bool] = NOT_LOOKED
    fit_margin_bytes: Fact[Bytes] = NOT_LOOKED
    fit_context_min: Fact[Count] = NOT_LOOKED
    gpu_refused: Fact[str] = NOT_LOOKED
    load_mode: Fact[str] = NOT_LOOKED  # mmap, none, mlock, mmap+mlock, dio or auto


class RuntimeMemory(Facts, frozen=True, kw_only=True):
    """What it estimated, found free and allocated."""

    buffers: Fact[list[Buffer]] = NOT_LOOKED
    asked_bytes: Fact[Bytes] = NOT_LOOKED  # Its own estimate of everything on GPUs
    available_bytes: Fact[Bytes] = NOT_LOOKED  # What it found free on the GPUs, all together
    size_bytes: Fact[Bytes] = NOT_LOOKED
    """What the loaded model takes by its own account, and how much of that is on GPUs: planned, not seen."""
    size_vram_bytes: Fact[Bytes] = NOT_LOOKED
    vram_share: Fact[Fraction] = NOT_LOOKED  # The same as a share, such as `48%/52% CPU/GPU` of `ollama ps`
    gpu_memory_fraction: Fact[Fraction] = NOT_LOOKED
    allocation_failure: Fact[AllocationFailure] = NOT_LOOKED
    load_error: Fact[str] = NOT_LOOKED


class Context(Facts, frozen=True, kw_only=True):
    """The context length, in tokens."""

    requested: Fact[Count] = NOT_LOOKED
    default: Fact[Count] = NOT_LOOKED  # Its default, such as Ollama's by the VRAM there is
    length: Fact[Count] = NOT_LOOKED
    per_slot: Fact[Count] = NOT_LOOKED


class KvCache(Facts, frozen=True, kw_only=True):
    """The KV cache and the prompt cache."""

    type_k: Fact[str] = NOT_LOOKED
    type_v: Fact[str] = NOT_LOOKED
    offload: Fact[bool] = NOT_LOOKED
    unified: Fact[bool] = NOT_LOOKED
    bytes: Fact[Bytes] = NOT_LOOKED
    cells: Fact[Count] = NOT_LOOKED
    usage: Fact[Fraction] = NOT_LOOKED
    prompts_free: Fact[Count] = NOT_LOOKED  # How many more prompts the prompt cache has room for
    capacity_tokens: Fact[Count] = NOT_LOOKED
    blocks_set: Fact[Count] = NOT_LOOKED  # Blocks of a paged cache that it was told to have, whatever memory is free
    swa_full: Fact[bool] = NOT_LOOKED
    prompt_cache: Fact[bool] = NOT_LOOKED
    reuse: Fact[Count] = NOT_LOOKED
    ram_bytes: Fact[Bytes] = NOT_LOOKED  # Host memory for the caches of conversations that lost their slot
    prefix_hit_rate: Fact[Fraction] = NOT_LOOKED


class Compute(Facts, frozen=True, kw_only=True):
    """Kernels, batches, threads and types that it computes with."""

    flash_attention: Fact[bool] = NOT_LOOKED
    attention: Fact[str] = NOT_LOOKED
    """The kernel of attention where the runtime names one, such as FLASH_ATTN, sdpa or eager."""
    kernel: Fact[str] = NOT_LOOKED  # The kernel of the quantised weights where the runtime names one, such as marlin
    eager: Fact[bool] = NOT_LOOKED  # CUDA graphs or compilation switched off
    graphs_without_attention: Fact[bool] = NOT_LOOKED  # CUDA graphs told to leave attention out (vLLM's PIECEWISE)
    batch: Fact[Count] = NOT_LOOKED
    ubatch: Fact[Count] = NOT_LOOKED
    threads: Fact[Count] = NOT_LOOKED
    threads_batch: Fact[Count] = NOT_LOOKED
    cpu_list: Fact[str] = NOT_LOOKED  # The processors that its threads are bound to, as written
    numa: Fact[str] = NOT_LOOKED
    polling: Fact[Count] = NOT_LOOKED
    repack: Fact[bool] = NOT_LOOKED
    weights_type: Fact[str] = NOT_LOOKED  # The type that the weights are computed in, such as bfloat16 or float32
    quantization: Fact[str] = NOT_LOOKED  # How the runtime was told to read the weights, such as awq or gptq_marlin


class Scheduling(Facts, frozen=True, kw_only=True):
    """How many requests and models it takes at once, and what they are doing now."""

    slots: Fact[Count] = NOT_LOOKED
    max_sequences: Fact[Count] = NOT_LOOKED
    max_batched_tokens: Fact[Count] = NOT_LOOKED
    keep_alive_s: Fact[float] = NOT_LOOKED  # How long a model stays loaded after a request; negative means forever
    max_loaded_models: Fact[Count] = NOT_LOOKED
    loaded_models: Fact[Count] = NOT_LOOKED  # How many models it has loaded now, this one among them
    running_requests: Fact[Count] = NOT_LOOKED
    busy_slots: Fact[Count] = NOT_LOOKED
    deferred_requests: Fact[Count] = NOT_LOOKED
    preemptions: Fact[Count] = NOT_LOOKED  # Requests that lost their place in the KV cache since the server started


class Sampling(Facts, frozen=True, kw_only=True):
    """How it chooses tokens, and drafts them."""

    top_k: Fact[int] = NOT_LOOKED
    grammar: Fact[str] = NOT_LOOKED  # What constrains the answer: a grammar, a schema, "json"
    speculative: Fact[str] = NOT_LOOKED  # The way of drafting, or the draft model
    draft_tokens: Fact[Count] = NOT_LOOKED
    draft_acceptance: Fact[Fraction] = NOT_LOOKED


class History(Facts, frozen=True, kw_only=True):
    """What it has done so far."""

    loads: Fact[list[PastLoad]] = NOT_LOOKED
    warnings: Fact[list[str]] = NOT_LOOKED  # Lines in which it complains, a few of each kind, masked
    prompts_reprocessed: Fact[Count] = NOT_LOOKED  # How often it says that a whole prompt was read again
    longest_sequence: Fact[Count] = NOT_LOOKED
    decode_tokens_per_s: Fact[Amount] = NOT_LOOKED
    prefill_tokens_per_s: Fact[Amount] = NOT_LOOKED


class Runtime(Facts, frozen=True, kw_only=True):
    """One running (or failed) runtime with one model; its facts are in groups."""

    name: Fact[str] = NOT_LOOKED
    version: Fact[str] = NOT_LOOKED
    state: Fact[Literal["loaded", "loading", "failed", "asleep"]] = NOT_LOOKED
    embedded: bool = False
    process: ServerProcess = ServerProcess()
    build: Build = Build()
    placement: Placement = Placement()
    memory: RuntimeMemory = RuntimeMemory()
    context: Context = Context()
    cache: KvCache = KvCache()
    compute: Compute = Compute()
    scheduling: Scheduling = Scheduling()
    sampling: Sampling = Sampling()
    history: History = History()

    def fact(self, name: str) -> Any:
        """One fact, by its name in FACT_PATHS."""
        group, _, field = FACT_PATHS[name].rpartition(".")
        return getattr(getattr(self, group) if group else self, field)

    def with_facts(self, **facts: Any) -> "Runtime":
        """The runtime with these facts instead of its own, each by its name in FACT_PATHS."""
        changes: dict[str, Any] = {}
        grouped: dict[str, dict[str, Any]] = {}
        for name, fact in facts.items():
            group, _, field = FACT_PATHS[name].rpartition(".")
            (grouped.setdefault(group, {}) if group else changes)[field] = fact
        for group, own in grouped.items():
            changes[group] = msgspec.structs.replace(getattr(self, group), **own)
        return msgspec.structs.replace(self, **changes)


_LONG_NAMES = {
    "build.features": "build_features",
    "build.architectures": "build_architectures",
    "build.type": "build_type",
    "context.requested": "context_set",
    "context.default": "context_default",
    "context.length": "context_length",
    "context.per_slot": "context_per_slot",
    "cache.type_k": "kv_type_k",
    "cache.type_v": "kv_type_v",
    "cache.offload": "kv_offload",
    "cache.unified": "kv_unified",
    "cache.bytes": "kv_bytes",
    "cache.cells": "kv_cells",
    "cache.usage": "kv_usage",
    "cache.capacity_tokens": "kv_capacity_tokens",
    "cache.blocks_set": "kv_blocks_set",
    "cache.reuse": "cache_reuse",
    "cache.ram_bytes": "cache_ram_bytes",
}
"""Names of facts whose field says too little without its group."""


def _fact_paths() -> dict[str, str]:
    paths: dict[str, str] = {}
    for own in msgspec.structs.fields(Runtime):
        if isinstance(own.default, Facts):
            inner = (f"{own.name}.{field}" for field in own.default.__struct_fields__)
            paths |= {_LONG_NAMES.get(path, path.partition(".")[2]): path for path in inner}
        else:
            paths[own.name] = own.name
    return paths


def short_path(path: str) -> str:
    """The path of a fact without its group: `runtime.context_length` for `runtime.context.length`."""
    return _SHORT_PATHS.get(path, path)


FACT_PATHS = _fact_paths()
"""Where each fact of a runtime is, by the one name that readers collect it under and that schema 1 had for it."""
_SHORT_PATHS = {f"runtime.{path}": f"runtime.{name}" for name, path in FACT_PATHS.items()}
