"""What a runtime was told, what it decided, and what it allocated."""

from typing import Literal

from unslow.facts.machine import Facts
from unslow.facts.values import NOT_LOOKED, Amount, Bytes, Count, Fact, Fraction

IN_BATCHES = ("vLLM", "SGLang", "TGI")
"""Names of runtimes that are made to answer many requests at once, and do so without being told how many."""
ALL_LAYERS = 9999
"""Of `gpu_layers_set` where all are asked for (`-ngl all`, `max`, -1): more than any model has."""
SO_FAR = "of all requests so far"
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
    library: str = ""
    """The backend that offers it, such as CUDA, ROCm, Vulkan, Metal or cpu."""
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
    """One of several loads that a log tells of, in their order."""

    at: str = ""
    model: Fact[str] = NOT_LOOKED
    context_length: Fact[Count] = NOT_LOOKED
    gpu_layers: Fact[Count] = NOT_LOOKED
    layers: Fact[Count] = NOT_LOOKED
    free_bytes: Fact[Bytes] = NOT_LOOKED
    """What was free on the GPUs before it, all together."""
    asked_bytes: Fact[Bytes] = NOT_LOOKED
    """What the runtime reckoned that the whole model would take on GPUs."""
    seconds: Fact[Amount] = NOT_LOOKED
    settings: str = ""
    """What else it was started with, as written, without what every start has of its own, such as a port."""
    requests: Fact[Count] = NOT_LOOKED
    """Requests that the server answered until the next load."""
    used_until: str = ""
    """When it answered the last of them, by the log's own clock."""
    stopped: bool = False
    """Whether a request without a prompt came last, as `ollama stop` sends one to unload a model."""
    failed: bool = False
    """Whether it ended before the model could answer."""
    after_start: bool = False
    """Whether it is the first of a server that had just started."""
    source: str


class Runtime(Facts, frozen=True, kw_only=True):
    """One running (or failed) runtime with one model."""

    name: Fact[str] = NOT_LOOKED
    version: Fact[str] = NOT_LOOKED
    pid: Fact[Count] = NOT_LOOKED
    url: Fact[str] = NOT_LOOKED
    embedded: bool = False
    command: Fact[list[str]] = NOT_LOOKED
    environment: Fact[dict[str, str]] = NOT_LOOKED
    log_path: Fact[str] = NOT_LOOKED
    log_level: Fact[Count] = NOT_LOOKED
    system: Fact[str] = NOT_LOOKED
    """The operating system that it runs on, where that is not the one of this machine."""
    container: Fact[str] = NOT_LOOKED
    """What it runs in: docker, podman, kubernetes, ..."""
    unit: Fact[str] = NOT_LOOKED
    """The service of systemd that starts it, a user's with `--user` before it; not found where a shell did."""
    front: Fact[str] = NOT_LOOKED
    """What stands before it and passes requests on, such as a router or llama-swap, and where."""

    # what it was told
    gpu_layers_set: Fact[int] = NOT_LOOKED
    context_set: Fact[Count] = NOT_LOOKED
    context_default: Fact[Count] = NOT_LOOKED
    """What it takes where nobody sets one, such as Ollama's by the VRAM there is."""
    fit: Fact[bool] = NOT_LOOKED
    fit_margin_bytes: Fact[Bytes] = NOT_LOOKED
    fit_context_min: Fact[Count] = NOT_LOOKED
    tensor_overrides: Fact[list[str]] = NOT_LOOKED
    device_set: Fact[str] = NOT_LOOKED
    kv_offload: Fact[bool] = NOT_LOOKED
    split_mode: Fact[str] = NOT_LOOKED
    """none, layer, row or tensor."""
    tensor_split: Fact[list[float]] = NOT_LOOKED
    main_gpu: Fact[Count] = NOT_LOOKED
    tensor_parallel: Fact[Count] = NOT_LOOKED
    pipeline_parallel: Fact[Count] = NOT_LOOKED
    load_mode: Fact[str] = NOT_LOOKED
    """mmap, none, mlock, mmap+mlock, dio or auto."""
    numa: Fact[str] = NOT_LOOKED
    op_offload: Fact[bool] = NOT_LOOKED
    eager: Fact[bool] = NOT_LOOKED
    """CUDA graphs or compilation switched off."""
    gpu_memory_fraction: Fact[Fraction] = NOT_LOOKED
    cpu_offload_bytes: Fact[Bytes] = NOT_LOOKED
    weights_type: Fact[str] = NOT_LOOKED
    """The type that the weights are computed in, such as bfloat16 or float32."""
    quantization: Fact[str] = NOT_LOOKED
    """How the runtime was told to read the weights, such as awq or gptq_marlin."""
    max_sequences: Fact[Count] = NOT_LOOKED
    max_batched_tokens: Fact[Count] = NOT_LOOKED
    keep_alive_s: Fact[float] = NOT_LOOKED
    """How long a model stays loaded after a request; below nought for ever."""
    max_loaded_models: Fact[Count] = NOT_LOOKED
    loaded_models: Fact[Count] = NOT_LOOKED
    """How many models it has loaded now, this one among them."""
    speculative: Fact[str] = NOT_LOOKED
    """The way of drafting, or the draft model."""
    draft_tokens: Fact[Count] = NOT_LOOKED
    prompt_cache: Fact[bool] = NOT_LOOKED
    cache_reuse: Fact[Count] = NOT_LOOKED
    cache_ram_bytes: Fact[Bytes] = NOT_LOOKED
    """Host memory for the caches of conversations that lost their slot."""
    swa_full: Fact[bool] = NOT_LOOKED
    repack: Fact[bool] = NOT_LOOKED
    cpu_list: Fact[str] = NOT_LOOKED
    """The processors that its threads are bound to, as written."""
    allowed_cpus: Fact[Count] = NOT_LOOKED
    """How many processors its own process may run on, by its cpuset and affinity."""
    quota_cpus: Fact[Amount] = NOT_LOOKED
    """How many processors' time its control group may use."""
    memory_limit_bytes: Fact[Bytes] = NOT_LOOKED
    """How much memory its control group may use; the page cache of what it reads counts."""
    priority: Fact[int] = NOT_LOOKED
    polling: Fact[Count] = NOT_LOOKED
    metrics_endpoint: Fact[bool] = NOT_LOOKED
    top_k: Fact[int] = NOT_LOOKED
    grammar: Fact[str] = NOT_LOOKED
    """What constrains the answer: a grammar, a schema, "json"."""

    # what it decided
    context_length: Fact[Count] = NOT_LOOKED
    context_per_slot: Fact[Count] = NOT_LOOKED
    slots: Fact[Count] = NOT_LOOKED
    kv_unified: Fact[bool] = NOT_LOOKED
    kv_type_k: Fact[str] = NOT_LOOKED
    kv_type_v: Fact[str] = NOT_LOOKED
    flash_attention: Fact[bool] = NOT_LOOKED
    batch: Fact[Count] = NOT_LOOKED
    ubatch: Fact[Count] = NOT_LOOKED
    threads: Fact[Count] = NOT_LOOKED
    threads_batch: Fact[Count] = NOT_LOOKED
    gpu_layers: Fact[Count] = NOT_LOOKED
    layers: Fact[Count] = NOT_LOOKED
    overflowing_layers: Fact[Count] = NOT_LOOKED
    graph_splits: Fact[Count] = NOT_LOOKED
    attention: Fact[str] = NOT_LOOKED
    """The kernel of attention where the runtime names one, such as FLASH_ATTN, sdpa or eager."""
    kernel: Fact[str] = NOT_LOOKED
    """The kernel of the quantised weights where the runtime names one, such as marlin."""
    device_used: Fact[str] = NOT_LOOKED
    """The device that it chose, where it says that it chose."""
    output_on_gpu: Fact[bool] = NOT_LOOKED
    build_features: Fact[list[str]] = NOT_LOOKED
    """Instruction sets that the build uses, of the line `system_info`."""
    build_architectures: Fact[list[str]] = NOT_LOOKED
    """GPU architectures that the build was compiled for."""
    build_type: Fact[str] = NOT_LOOKED

    # what it allocated, and on what
    backends: Fact[list[str]] = NOT_LOOKED
    devices: Fact[list[SeenDevice]] = NOT_LOOKED
    buffers: Fact[list[Buffer]] = NOT_LOOKED
    kv_bytes: Fact[Bytes] = NOT_LOOKED
    kv_cells: Fact[Count] = NOT_LOOKED
    asked_bytes: Fact[Bytes] = NOT_LOOKED
    """What it reckoned that everything would take on GPUs."""
    available_bytes: Fact[Bytes] = NOT_LOOKED
    """What it found free on the GPUs, all together."""
    size_bytes: Fact[Bytes] = NOT_LOOKED
    """What the loaded model takes by its own account, and how much of that is on GPUs: planned, not seen."""
    size_vram_bytes: Fact[Bytes] = NOT_LOOKED
    vram_share: Fact[Fraction] = NOT_LOOKED
    """The same as a share, such as `48%/52% CPU/GPU` of `ollama ps`."""
    state: Fact[Literal["loaded", "loading", "failed", "asleep"]] = NOT_LOOKED
    allocation_failure: Fact[AllocationFailure] = NOT_LOOKED
    load_error: Fact[str] = NOT_LOOKED
    gpu_refused: Fact[str] = NOT_LOOKED
    resident_bytes: Fact[Bytes] = NOT_LOOKED
    bytes_by_node: Fact[dict[str, Bytes]] = NOT_LOOKED
    """Where its memory lies, mapped files too: by the number of the memory node."""
    disk_read_bytes: Fact[Bytes] = NOT_LOOKED
    """What disks have given it since it started; what lay in memory already is not among it."""

    # what it has done so far
    loads: Fact[list[PastLoad]] = NOT_LOOKED
    warnings: Fact[list[str]] = NOT_LOOKED
    """Lines in which it complains, a few of each kind, masked."""
    prompts_reprocessed: Fact[Count] = NOT_LOOKED
    """How often it says that a whole prompt was read again."""
    preemptions: Fact[Count] = NOT_LOOKED
    running_requests: Fact[Count] = NOT_LOOKED
    kv_usage: Fact[Fraction] = NOT_LOOKED
    kv_capacity_tokens: Fact[Count] = NOT_LOOKED
    kv_blocks_set: Fact[Count] = NOT_LOOKED
    """Blocks of a paged cache that it was told to have, whatever memory is free."""
    prefix_hit_rate: Fact[Fraction] = NOT_LOOKED
    draft_acceptance: Fact[Fraction] = NOT_LOOKED
    busy_slots: Fact[Count] = NOT_LOOKED
    deferred_requests: Fact[Count] = NOT_LOOKED
    longest_sequence: Fact[Count] = NOT_LOOKED
    decode_tokens_per_s: Fact[Amount] = NOT_LOOKED
    prefill_tokens_per_s: Fact[Amount] = NOT_LOOKED
