"""SGLang's log: `[2026-08-22 10:00:00 TP0] Decode batch, #running-req: 1, ...`, in its older and newer spelling."""

import re
from functools import partial

from unslow.facts.runtime import AllocationFailure, Buffer
from unslow.look.logs.dialect import LineDialect
from unslow.look.logs.serving_rules import (
    CHATTY_ANYWHERE,
    TORCH_RULES,
    Moment,
    Reading,
    Rule,
    RuleReader,
    needles_of,
    note_settings,
    parse_size,
    parse_whole_number,
)

_NUMBER = r"(\d{1,12}(?:\.\d{1,6})?)"
_RUNNING = re.compile(r"#running-req: (\d{1,9})")
_WAITING = re.compile(r"#queue-req(?: p\+d)?: (\d{1,9})")
_USAGE = re.compile(r"token usage: (\d(?:\.\d{1,6})?)")
_RATE = re.compile(rf"gen throughput \(token/s\): {_NUMBER}")
_GRAPH = re.compile(r"cuda graph: (True|False)")
_ACCEPTED = re.compile(r"accept[ -]rat(?:e|io): (\d(?:\.\d{1,6})?)")
_NEW = re.compile(r"#new-token: (\d{1,9})")
_CACHED = re.compile(r"#cached-token: (\d{1,9})")
_RANK = re.compile(r"\bTP(\d{1,3})\b")


def _device(found: re.Match[str]) -> str:
    """The worker that writes, where there are several: each has a GPU."""
    rank = _RANK.search(found.string, 0, found.start())
    return f"GPU{rank[1] if rank else 0}"


def _decode(reading: Reading, found: re.Match[str], where: str) -> None:
    """A number of decode steps; the tokens are those of all requests together."""
    line = found.string
    reading.works(
        Moment(
            where=where,
            running=_count(_RUNNING, line),
            waiting=_count(_WAITING, line),
            usage=_share(line),
            tokens_per_s=float(rate[1]) if (rate := _RATE.search(line)) else None,
        )
    )
    if graph := _GRAPH.search(line):
        reading.note("eager", graph[1] == "False", where)
    if accepted := _ACCEPTED.search(line):
        reading.note("draft_acceptance", min(float(accepted[1]), 1.0), where)


def _prefill(reading: Reading, found: re.Match[str], where: str) -> None:
    """Prompts that are read; what was cached of them is known to the token."""
    line = found.string
    reading.works(
        Moment(where=where, running=_count(_RUNNING, line), waiting=_count(_WAITING, line), usage=_share(line))
    )
    new, cached = _count(_NEW, line), _count(_CACHED, line)
    if new is not None and cached is not None and new + cached:
        reading.count("prompt_tokens", new + cached, where)
        reading.count("cached_tokens", cached, where)


def _count(pattern: re.Pattern[str], line: str) -> int | None:
    found = pattern.search(line)
    return int(found[1]) if found else None


def _share(line: str) -> float | None:
    shares = [min(float(text), 1.0) for text in _USAGE.findall(line)]  # models with windows have two pools
    return max(shares, default=None)


def _arguments(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start()
    note_settings(reading, found[1], where)
    if "context_length" in reading.facts:
        reading.note("context_set", reading.facts["context_length"].value, where)


def _sizes(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("kv_capacity_tokens", parse_whole_number(found[1]), where)
    note_settings(reading, found[0].replace("context_len=", "context_length="), where)


def _weights(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("weights_type", found[1], where)
    if found[2]:
        reading.allocated(Buffer(device=_device(found), kind="model", bytes=parse_size(found[2]), on_gpu=True), where)


def _cache(reading: Reading, found: re.Match[str], where: str) -> None:
    """The cache of the model; that of a draft, which is named later, is smaller."""
    device, both = _device(found), parse_size(found[2]) + (parse_size(found[3]) if found[3] else 0)
    known = reading.buffers.get((device, "kv"))
    if known is None or known[0].bytes < both:
        reading.allocated(Buffer(device=device, kind="kv", bytes=both, on_gpu=True), where)
        reading.note("kv_capacity_tokens", parse_whole_number(found[1]), where)


def _retracted(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.count("preemptions", parse_whole_number(found[1]) if found[1] else 1, where)
    reading.warn(found[0], where)


def _attention(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("attention", found[1], where)


def _no_graphs(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("eager", value=True, where=where)
    reading.warn(found[0], where)


def _graphs(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.note("eager", value=False, where=where)


def _cache_type(reading: Reading, found: re.Match[str], where: str) -> None:
    for name in ("kv_type_k", "kv_type_v"):
        reading.note(name, found[1], where)


def _no_memory(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.fail(found[0], where, AllocationFailure(device="GPU", what="kv_cache", message=found[0]))


RULES = (
    Rule(("Decode batch", "gen throughput (token/s)"), re.compile(r"Decode batch|#running-req: \d"), _decode),
    Rule(("Prefill batch",), re.compile(r"Prefill batch[.,] "), _prefill),
    Rule(("server_args=",), re.compile(r"server_args=(?:ServerArgs\()?(.{1,8000})"), _arguments),
    Rule(("max_total_num_tokens=",), re.compile(r"max_total_num_tokens=(\d{1,12}), .{0,300}"), _sizes),
    Rule(
        ("Load weight end.",),
        re.compile(rf"Load weight end\..{{0,200}}?dtype=torch\.(\w{{1,20}})(?:.{{0,80}}?mem usage={_NUMBER} GB)?"),
        _weights,
    ),
    Rule(
        ("KV Cache is allocated", "KV cache is allocated"),
        re.compile(
            rf"KV [Cc]ache is allocated\..{{0,40}}?#tokens: (\d{{1,12}}), (?:K|KV|Cache) size: {_NUMBER} ?GB"
            rf"(?:, V size: {_NUMBER} ?GB)?"
        ),
        _cache,
    ),
    Rule(("Using KV cache dtype", "sing KV cache with dtype"), re.compile(r"dtype:? torch\.(\w{1,20})"), _cache_type),
    Rule(
        ("Retract requests", "ecode out of memory happened"),
        re.compile(r"(?:Retract requests|ecode out of memory happened)\.?(?: #retracted_reqs: (\d{1,9}))?"),
        _retracted,
    ),
    Rule(
        ("backend by default", "as attention backend"),
        re.compile(r"(?:Use|Using) (\w{1,40}) (?:backend by default|as attention backend)"),
        _attention,
    ),
    Rule(("Cuda graph is disabled",), re.compile(r"Cuda graph is disabled because[^\n]{0,120}"), _no_graphs),
    Rule(("apture cuda graph end",), re.compile("apture cuda graph end"), _graphs),
    Rule(
        ("Not enough memory. Please try",),
        re.compile(r"Not enough memory\. Please try to increase --mem-fraction-static"),
        _no_memory,
    ),
    *TORCH_RULES,
)

CHATTY = frozenset({"Decode batch", "Prefill batch", "gen throughput (token/s)"})

DIALECT = LineDialect(needles_of(RULES), partial(RuleReader, "SGLang", RULES, alone=False), CHATTY | CHATTY_ANYWHERE)
