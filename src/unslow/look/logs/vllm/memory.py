"""Where vLLM's memory goes: weights and cache of each worker, what the cache holds, what was free before."""

import re

from unslow.facts.runtime import Buffer, SeenDevice
from unslow.facts.values import reported
from unslow.look.logs.serving_rules import NUMBER, Rule, size, whole
from unslow.look.logs.serving_state import Reading

BLOCK_TOKENS = 16
"""Tokens in a block of the cache unless vLLM is told otherwise; the oldest logs count blocks only."""

_RANK = re.compile(r"(?:TP|tp_rank[=:]? ?|[Rr]ank[=: ])(\d{1,3})(?!\d)")
_AMOUNT = r"(\d{1,9}(?:\.\d{1,6})?)"


def _device(found: re.Match[str]) -> str:
    """The worker that writes, where there are several: each has a GPU."""
    rank = _RANK.search(found.string, 0, found.start())
    return f"GPU{rank[1] if rank else 0}"


def _weights(reading: Reading, found: re.Match[str], where: str) -> None:
    buffer = Buffer(device=_device(found), kind="model", bytes=size(found[1], found[2]), on_gpu=True)
    reading.allocated(buffer, where)


def _cache(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.allocated(Buffer(device=_device(found), kind="kv", bytes=size(found[1]), on_gpu=True), where)


def _host_cache(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.allocated(Buffer(device=f"CPU{found[2]}", kind="kv", bytes=size(found[1]), on_gpu=False), where)


def _capacity(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("kv_capacity_tokens", whole(found[1]), where)


def _concurrency(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("context_length", whole(found[1]), where)
    reading.guess("kv_capacity_tokens", whole(str(whole(found[1]) * float(found[2]))), where)


def _blocks(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.guess("kv_capacity_tokens", whole(found[1]) * BLOCK_TOKENS, f"{where}: blocks of {BLOCK_TOKENS} tokens")


def _free(reading: Reading, found: re.Match[str], where: str) -> None:
    name = found[1] or _device(found)
    free, total = reported(size(found[2]), where), reported(size(found[3]), where)
    reading.device(SeenDevice(name=name, free_bytes=free, total_bytes=total), where)


def _fraction(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("gpu_memory_fraction", min(float(found[1]), 1.0), where)


def _budget(reading: Reading, found: re.Match[str], where: str) -> None:
    """The older way to say it: all memory, the share of it, the weights, the rest."""
    reading.device(SeenDevice(name=_device(found), total_bytes=reported(size(found[1]), where)), where)


MEMORY_RULES = (
    Rule(("Model loading took",), re.compile(rf"Model loading took {_AMOUNT} ?(GiB|GB)"), _weights),
    Rule(("Loading model weights took",), re.compile(rf"Loading model weights took {_AMOUNT} ?(GiB|GB)"), _weights),
    Rule(("model weights take",), re.compile(rf"model weights take {_AMOUNT} ?(GiB|GB)"), _weights),
    Rule(("Available KV cache memory",), re.compile(rf"Available KV cache memory: {_AMOUNT} GiB"), _cache),
    Rule(("memory reserved for KV Cache",), re.compile(rf"reserved for KV Cache is {_AMOUNT} ?GiB"), _cache),
    Rule(
        ("GiB for KV cache on node",),
        re.compile(rf"set \({_AMOUNT}/[\d.]{{1,15}}\) GiB for KV cache on node (\d{{1,3}})"),
        _host_cache,
    ),
    Rule(("KV cache size",), re.compile(rf"\b[CGX]PU KV cache size: {NUMBER} tokens"), _capacity),
    Rule(
        ("Maximum concurrency for",),
        re.compile(rf"Maximum concurrency for {NUMBER} tokens per request: (\d{{1,9}}(?:\.\d{{1,6}})?)x"),
        _concurrency,
    ),
    Rule(("# GPU blocks:",), re.compile(r"# GPU blocks: (\d{1,9})"), _blocks),
    Rule(("# CUDA blocks:",), re.compile(r"# (?:CUDA|cuda) blocks: (\d{1,9})"), _blocks),
    Rule(("# cuda blocks:",), re.compile(r"# cuda blocks: (\d{1,9})"), _blocks),
    Rule(
        ("Free memory on device",),
        re.compile(rf"Free memory on device ?(\w{{1,20}}:\d{{1,3}})? ?\({_AMOUNT}/{_AMOUNT} GiB\)"),
        _free,
    ),
    Rule(
        ("GPU memory utilization",),
        re.compile(r"esired GPU memory utilization (?:is )?\(([01]?\.\d{1,6}|1)\b"),
        _fraction,
    ),
    Rule(("total_gpu_memory (",), re.compile(rf"total_gpu_memory \({_AMOUNT} ?GiB\)"), _budget),
    Rule(
        ("x gpu_memory_utilization",),
        re.compile(r"gpu_memory_utilization \(([01]?\.\d{1,6}|1(?:\.0{1,6})?)\)"),
        _fraction,
    ),
    Rule(("gpu_memory_utilization=",), re.compile(r"\bgpu_memory_utilization=([01]?\.\d{1,6})"), _fraction),
)
