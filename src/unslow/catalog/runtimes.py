"""What is known of runtimes by version: what they take beside weights and cache, and what changed when."""

import re
from functools import cache, partial

import msgspec

from unslow.catalog import entries, entry
from unslow.facts.account import Topic

_NUMBERS = re.compile(r"\d+")
_MOST_NUMBERS = 4


class Kernel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What vLLM's kernels for the experts of a packing want beyond the packing itself."""

    packing: str = ""
    padding: tuple[int, int] = (1, 1)  # The outer and the inner length of an expert are multiples of these
    workspace: bool = True  # Whether what lies between the matrices of the experts is kept
    source: str = ""


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How vLLM counts memory from a version on, until the next file's version."""

    since: tuple[int, int]
    utilization: float  # The default of `--gpu-memory-utilization`
    sampler_copies: float
    """Copies in float32 of the logits of all requests that the warm-up of the sampler holds beside the raw ones."""
    graphs_in_budget: bool  # Whether an estimate of the CUDA graphs is taken off before the cache is sized
    tokens_by_request: bool
    """Whether the reported size of the cache in tokens is concurrency × longest request, or blocks × block."""
    batches_in_flight: int  # How many batches a windowed layer keeps tokens of
    group_slack: float  # Kinds of layers whose numbers differ by less than this factor are padded to the larger number
    latent_alignment: int  # Blocks of latents next to recurrent states are multiples of this many tokens
    null_block: bool  # Whether the check of the longest request leaves one block aside
    source: str


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What vLLM's start takes beside tensors of a known size; of three figures, the least, the usual and the most."""

    buffers: int  # Workspaces and metadata within PyTorch's memory
    tower: int  # More of them at the peak of a model with a tower for images or sound
    beside: tuple[int, int, int]  # Beside PyTorch's memory after the profiling run, on one device
    beside_parallel: tuple[int, int, int]  # The same with tensor parallelism
    beside_pipeline: tuple[int, int, int]
    context: tuple[int, int, int]  # Held before anything is loaded, on one device
    context_parallel: tuple[int, int, int]  # The same with several, whose library for exchange has buffers too
    graphs: int  # Captured graphs of the 51 usual batch sizes, but for the layers
    graphs_layer: int  # For each layer
    graphs_factor: float  # How far off this may be, either way
    source: str


class Overheads(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bytes that a process takes on a device beside tensors: the least, the usual, the most that was seen."""

    context: tuple[int, int, int]  # The driver's context with the modules it has loaded
    workspace: tuple[int, int, int]  # Of the matrix libraries, within the framework's own memory
    source: str


def vllm_kernel(packing: str) -> Kernel:
    """What the kernels of a packing want; of most, nothing."""
    kernels = entries("runtimes_memory/kernels", Kernel).values()
    return next((kernel for kernel in kernels if kernel.packing == packing), Kernel())


@cache
def vllm_releases() -> tuple[Release, ...]:
    """What is known of vLLM's versions, the oldest first."""
    return tuple(sorted(entries("runtimes_memory/vllm", Release).values(), key=lambda r: r.since))


def vllm_release(version: tuple[int, int]) -> Release:
    """What holds for a version of vLLM; for one older than all that are known, what holds for the oldest."""
    return max((r for r in vllm_releases() if r.since <= version), key=lambda r: r.since, default=vllm_releases()[0])


vllm_profile = partial(entry, "runtimes_memory/profiles", "vllm", Profile)  # What vLLM's start takes
overheads = partial(entry, "runtimes_memory", "torch", Overheads)  # What PyTorch takes beside tensors


class VersionChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change: from `version` on, `what` is so."""

    runtime: str  # As the facts of a runtime name it, such as llama.cpp
    version: str
    topic: Topic
    what: str
    source: str
    undo: str = ""  # How to have it as before, as a value of the setting that the topic is about; empty where one can't


version_changes = partial(entries, "changes", VersionChange)  # Every change that is known, by the name of its file


def changes_at(runtime: str, before: str, since: str) -> tuple[VersionChange, ...]:
    """The changes between the last good version and the first bad one; with no good one, those of exactly the bad."""
    bad, good = version_numbers(since), version_numbers(before)
    changes = [c for c in version_changes().values() if bad and c.runtime.lower() in runtime.lower()]
    found = ((version_numbers(c.version), c) for c in changes)
    return tuple(c for at, c in found if (good < at <= bad if good else at == bad))


def version_numbers(version: str) -> tuple[int, ...]:
    """A version as numbers that compare: b1843 is (1843,), v0.15.5-rc1 is (0, 15, 5, 1), nothing is ()."""
    return tuple(int(n[:9]) for n in _NUMBERS.findall(version)[:_MOST_NUMBERS])
