"""Lines in which llama.cpp complains, and what it says it does instead: kept in its own words, a few of each kind."""

import re

from unslow.look.logs.llama_cpp.state import Reading, Rule

_MOST_MESSAGE = 300


def _kind(kind: str, needle: str, pattern: str) -> Rule:
    def take(reading: Reading, found: re.Match[str], where: str) -> None:
        reading.warn(kind, found[0].strip()[:_MOST_MESSAGE], where)

    return Rule(needle, re.compile(pattern), take)


RULES = (
    _kind("mmap", "tensor overrides to CPU are used", r"tensor overrides to CPU are used with mmap.*"),
    _kind("mlock", "failed to mlock", r"failed to mlock .*"),
    _kind("fit", "failed to fit params", r"failed to fit params to free device memory.*"),
    _kind("context_cut", "context size reduced from", r"context size reduced from \d+ to \d+.*"),
    _kind("trained", "possible training context overflow", r"n_ctx\w{0,20} \(\d+\) > n_ctx_train \(\d+\).*"),
    _kind(
        "fused", "is assigned to device", r"layer \d+ is assigned to device .{0,60} but .{0,90} assigned to device .*"
    ),
    _kind("unsupported", "not supported, set to disabled", r"[\w ]{0,120}not supported, set to disabled.*"),
    _kind(
        "quantised_v",
        "quantized V cache",
        r"(?:enabling flash_attn since .*|quantized V cache (?:was requested|requires).*)",
    ),
    _kind("nccl", "NCCL not compiled in", r"NCCL not compiled in.*"),
    _kind("pipeline", "retrying without pipeline", r"compute buffer allocation failed, retrying without pipeline.*"),
    _kind("cache_full", "failed to find free space in the KV", r"failed to find free space in the KV cache.*"),
    _kind("shift", "slot context shift", r"slot context shift.*"),
    _kind("cache_reuse", "cache reuse is not supported", r"cache reuse is not supported.*"),
    _kind("metal", "the recommended max working set", r"current allocated size .*recommended max working set.*"),
    _kind("software", "Device type is CPU", r"Device type is CPU.*"),
    _kind("library", "load_best: failed", r"load_best: failed to load .*"),
    _kind("evicted", "failed to load prompt from cache", r"failed to load prompt from cache.*"),
    _kind("capped", "exceeds the training context", r"the slot context \(\d+\) exceeds the training context.*"),
)
