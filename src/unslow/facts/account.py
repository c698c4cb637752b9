"""What a person reports in words: kept apart from what a program printed, because a verdict rests on evidence."""

from enum import StrEnum
from typing import Literal

from unslow.facts.machine import Facts
from unslow.facts.values import NOT_LOOKED, Amount, Fact

Side = Literal["slow", "fast"]
Metric = Literal["decode", "prefill", "load", "first_token", "total", "unknown"]


class Topic(StrEnum):
    """What a remark is about, or what differs between two speeds."""

    # what changed, or differs
    VERSION = "version"
    DRIVER = "driver"
    SYSTEM = "system"
    CLIENT = "client"
    BUILD = "build"
    QUANT_TYPE = "quant_type"
    KV_TYPE = "kv_type"
    KERNEL = "kernel"
    FLASH_ATTENTION = "flash_attention"
    GRAPHS = "graphs"
    GRAMMAR = "grammar"
    SAMPLER = "sampler"
    LOGPROBS = "logprobs"
    THREADS = "threads"
    NUMA = "numa"
    CPU_QUOTA = "cpu_quota"
    BATCH = "batch"
    CONTEXT = "context"
    DEPTH = "depth"
    CACHE = "cache"
    GPU_COUNT = "gpu_count"
    SPLIT_MODE = "split_mode"
    TENSOR_PARALLEL = "tensor_parallel"
    DEVICE = "device"
    DRAFT = "draft"
    EXPERTS = "experts"
    LOAD_MODE = "load_mode"
    CONCURRENCY = "concurrency"
    CLOCKS = "clocks"
    LINK = "link"
    DISK = "disk"
    THINKING = "thinking"

    # what was seen
    GPU_UNUSED = "gpu_unused"
    GPU_ABSENT = "gpu_absent"
    GPU_LIBRARY_MISSING = "gpu_library_missing"
    GPU_LIBRARY_ABSENT = "gpu_library_absent"
    """A program printed that a library of the GPU is not there; missing ones are only said to be."""
    GPU_NOT_SUPPORTED = "gpu_not_supported"
    GPU_LOST = "gpu_lost"
    WRONG_GPU = "wrong_gpu"
    SHARED_MEMORY_USED = "shared_memory_used"
    VRAM_FREE = "vram_free"
    VRAM_FULL = "vram_full"
    OTHER_VRAM_USER = "other_vram_user"
    SWAPPING = "swapping"
    DISK_BUSY = "disk_busy"  # The disk is read, or said to be
    DISK_BUSY_WHILE_GENERATING = "disk_busy_while_generating"
    NODE_IMBALANCE = "node_imbalance"
    COPIES_TO_GPU = "copies_to_gpu"  # The GPU waits for weights that come over its link
    CPU_BUSY = "cpu_busy"
    ONE_CORE_BUSY = "one_core_busy"
    EFFICIENCY_CORES_BUSY = "efficiency_cores_busy"
    EXPERTS_ON_CPU = "experts_on_cpu"
    GPU_IDLE = "gpu_idle"
    THROTTLED = "throttled"
    CPU_CLOCK_LOW = "cpu_clock_low"
    GPU_CLOCK_LOW = "gpu_clock_low"
    CPU_ONLY_BUILD = "cpu_only_build"
    MISSING_INSTRUCTIONS = "missing_instructions"
    PROMPT_AGAIN = "prompt_again"
    RELOADS = "reloads"
    CONSTANT_DELAY = "constant_delay"
    LOCALHOST_URL = "localhost_url"
    SERVER_FAST = "server_fast"
    QUEUED = "queued"
    CACHE_FULL = "cache_full"
    SATURATED = "saturated"
    NO_GAIN = "no_gain"
    SAME_FOR_OTHERS = "same_for_others"
    GOING_BACK_HELPS = "going_back_helps"  # An older version is fast, or a bisection found the change
    EXTRA_REQUESTS = "extra_requests"  # The client sends requests of its own: titles, tags, suggestions
    CORES_IDLE = "cores_idle"  # Cores stand idle on a machine whose CPU computes
    LONG_THINKING = "long_thinking"  # The model thinks long before it answers, or thinking cannot be switched off
    THREADS_OF_HOST = "threads_of_host"  # As many threads are started as the host has CPUs, where fewer may be used
    GPUS_TAKE_TURNS = "gpus_take_turns"  # One GPU of several works at a time, or several are no faster than one
    LINK_NARROW = "link_narrow"  # A GPU's link runs with fewer lanes, or a lower generation, than it should
    BATCH_UNSET = "batch_unset"  # No size of a micro-batch is set
    POWER_LIMITED = "power_limited"  # A limit of power is said to be active, or the machine runs on its battery
    GPU_NOT_PASSED = "gpu_not_passed"  # A container was started without its GPU, or without what hands it on
    WEIGHTS_ON_HOST = "weights_on_host"
    """A program printed that it keeps weights in the host's memory, or on disk, for lack of room."""
    LAYERS_UNSET = "layers_unset"  # It was started without saying how many layers go to the GPU
    LAYERS_FIT_BY_HAND = "layers_fit_by_hand"
    """With the number of layers set by hand, or with another program, all of it is on the GPU."""
    OPERATION_ON_CPU = "operation_on_cpu"  # A program printed that the GPU's backend lacks an operation
    NO_FAST_KERNEL = "no_fast_kernel"  # A format of weights has no kernel of its own on this hardware
    GPU_SHARED = "gpu_shared"  # Several programs or services compute on the same GPUs
    MEMORY_BUS_IDLE = "memory_bus_idle"  # The GPU counts as busy and hardly reads its own memory
    SLOW_SHARE = "slow_share"  # The model is on a network share, a hard disk, or another medium that is named as slow


class Remark(Facts, frozen=True, kw_only=True):
    """One reported observation; `denied` where they say that it is not so."""

    topic: Topic
    text: str
    source: str
    denied: bool = False


class Comparison(Facts, frozen=True, kw_only=True):
    """Two speeds of the same thing, and what differs on the slow side; times are turned into rates.

    Where only a factor is told, `slow` is 1 and `relative` is set.
    """

    metric: Metric
    slow: Amount
    fast: Amount
    relative: bool = False
    worded: bool = False  # Only which side is the faster is told: `fast` is a stand-in then, and no report may quote it
    differs: tuple[Topic, ...] = ()
    slow_is: str = ""  # What stands beside the slow side, in small letters; empty where the text does not say which way
    fast_is: str = ""  # The same of the fast side
    now: Side | None = None  # Which side is in use today, where it is said
    text: str = ""
    source: str


class Account(Facts, frozen=True, kw_only=True):
    """One report in words."""

    remarks: Fact[tuple[Remark, ...]] = NOT_LOOKED
    comparisons: Fact[tuple[Comparison, ...]] = NOT_LOOKED
    slow_metric: Fact[Metric] = NOT_LOOKED  # Which phase the complaint is about
    slowdown: Fact[Amount] = NOT_LOOKED  # How many times slower than before, or than it should be, in their words
    version_before: Fact[str] = NOT_LOOKED  # The last version that was well
    version_since: Fact[str] = NOT_LOOKED  # The first version that was not
