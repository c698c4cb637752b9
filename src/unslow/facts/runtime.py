"""What a runtime was told, what it decided, and what it allocated."""

from typing import Literal

from unslow.facts.machine import Facts
from unslow.facts.values import NOT_LOOKED, Amount, Bytes, Count, Fact


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


class AllocationFailure(Facts, frozen=True, kw_only=True):
    """The allocation that ended a load."""

    device: str
    what: Literal["weights", "kv_cache", "compute_buffer", "unknown"]
    asked_bytes: Fact[Bytes] = NOT_LOOKED
    message: str


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

    # what it was told
    gpu_layers_set: Fact[int] = NOT_LOOKED
    context_set: Fact[Count] = NOT_LOOKED
    fit: Fact[bool] = NOT_LOOKED
    fit_margin_bytes: Fact[Bytes] = NOT_LOOKED
    tensor_overrides: Fact[list[str]] = NOT_LOOKED
    device_set: Fact[str] = NOT_LOOKED

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

    # what it allocated, and on what
    backends: Fact[list[str]] = NOT_LOOKED
    devices: Fact[list[SeenDevice]] = NOT_LOOKED
    buffers: Fact[list[Buffer]] = NOT_LOOKED
    kv_bytes: Fact[Bytes] = NOT_LOOKED
    kv_cells: Fact[Count] = NOT_LOOKED
    state: Fact[Literal["loaded", "loading", "failed", "asleep"]] = NOT_LOOKED
    allocation_failure: Fact[AllocationFailure] = NOT_LOOKED
    load_error: Fact[str] = NOT_LOOKED
    gpu_refused: Fact[str] = NOT_LOOKED
    resident_bytes: Fact[Bytes] = NOT_LOOKED

    # what it has done so far
    busy_slots: Fact[Count] = NOT_LOOKED
    deferred_requests: Fact[Count] = NOT_LOOKED
    longest_sequence: Fact[Count] = NOT_LOOKED
    decode_tokens_per_s: Fact[Amount] = NOT_LOOKED
    prefill_tokens_per_s: Fact[Amount] = NOT_LOOKED
