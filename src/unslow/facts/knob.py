"""Settings by meaning; each runtime spells them in its own way."""

from enum import StrEnum

import msgspec

Setting = int | float | str | bool | None


class Knob(StrEnum):
    """A setting that a fix can change; the value is its id."""

    GPU_LAYERS = "gpu_layers"
    EXPERTS_ON_CPU = "experts_on_cpu"
    CONTEXT_LENGTH = "context_length"
    KV_CACHE_TYPE = "kv_cache_type"
    THREADS = "threads"
    FIT = "fit"
    QUANT = "quant"
    DEVICE = "device"
    GPU_BACKEND = "gpu_backend"
    PARALLEL = "parallel"
    KV_OFFLOAD = "kv_offload"
    FLASH_ATTENTION = "flash_attention"
    BATCH = "batch"
    SPLIT_MODE = "split_mode"
    TENSOR_SPLIT = "tensor_split"
    FIT_MARGIN = "fit_margin"
    LOAD_MODE = "load_mode"
    NUMA = "numa"
    GRAPHS = "graphs"
    QUANT_KERNEL = "quant_kernel"
    SPECULATIVE = "speculative"
    SAMPLER = "sampler"
    THINKING = "thinking"
    PROMPT_CACHE = "prompt_cache"
    KEEP_ALIVE = "keep_alive"
    VERSION = "version"
    DRIVER_FALLBACK = "driver_fallback"
    WIRED_LIMIT = "wired_limit"
    CPU_QUOTA = "cpu_quota"
    MEMORY_LIMIT = "memory_limit"
    VIRTUAL_CPU = "virtual_cpu"
    NATIVE_BUILD = "native_build"
    CLIENT = "client"
    CAPACITY = "capacity"
    POWER = "power"
    CLOCKS = "clocks"
    ALLOCATOR = "allocator"
    LOADED_MODELS = "loaded_models"
    STORAGE = "storage"
    LINK = "link"
    OTHER_PROCESS = "other_process"
    OTHER_LOAD = "other_load"
    MODEL_FILE = "model_file"
    """Another file of the same model; the value is its path, or the name that the runtime has for it."""
    VALUE_CACHE_TYPE = "value_cache_type"  # Of values alone, where they are of another type than keys
    TENSOR_OVERRIDE = "tensor_override"
    """Tensors by a pattern of their names, and where they go: `PATTERN=DEVICE`, several with commas between them."""
    LOGICAL_BATCH = "logical_batch"
    OP_OFFLOAD = "op_offload"  # Whether a GPU computes long prompts with weights in host memory
    KV_UNIFIED = "kv_unified"  # Whether slots share one cache
    MAIN_GPU = "main_gpu"
    MEMORY_SHARE = "memory_share"  # Of every GPU's memory, what a serving engine takes for itself
    WEIGHTS_TYPE = "weights_type"  # The type that weights are loaded in, such as bfloat16
    ATTENTION = "attention"  # The kernel of attention by the runtime's own name for it
    CACHE = "cache"  # The kind of cache that a library keeps, such as static or quantized
    COMPILE = "compile"

    def to(self, value: Setting, why: str = "") -> "Change":
        return Change(self, value, why)


class Change(msgspec.Struct, frozen=True):
    """One knob, the value to give it, and a word for the person who turns it."""

    knob: Knob
    value: Setting
    why: str = ""
