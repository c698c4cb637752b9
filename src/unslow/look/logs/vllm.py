"""vLLM's log, of both engines: `LEVEL MM-DD HH:MM:SS [file.py:line] message` and bare messages.

Every process of a server writes into it, with a name before the level or without; people quote fragments.
"""

import re
from functools import partial

from unslow.facts.masking import masked_text
from unslow.facts.runtime import AllocationFailure, Buffer, SeenDevice
from unslow.facts.values import NOT_LOOKED, reported
from unslow.look.logs.dialect import LineDialect
from unslow.look.logs.serving_rules import (
    CHATTY_ANYWHERE,
    NUMBER,
    TORCH_RULES,
    Moment,
    Reading,
    Rule,
    RuleReader,
    needles_of,
    note_model,
    note_settings,
    parse_share,
    parse_size,
    parse_whole_number,
)

BLOCK_TOKENS = 16
"""Tokens in a block of the cache unless vLLM is told otherwise; the oldest logs count blocks only."""

_RANK = re.compile(r"(?:TP|tp_rank[=:]? ?|[Rr]ank[=: ])(\d{1,3})(?!\d)")
_AMOUNT = r"(\d{1,9}(?:\.\d{1,6})?)"


def _device(found: re.Match[str]) -> str:
    """The worker that writes, where there are several: each has a GPU."""
    rank = _RANK.search(found.string, 0, found.start())
    return f"GPU{rank[1] if rank else 0}"


def _weights(reading: Reading, found: re.Match[str], where: str) -> None:
    buffer = Buffer(device=_device(found), kind="model", bytes=parse_size(found[1], found[2]), on_gpu=True)
    reading.allocated(buffer, where)


def _cache(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.allocated(Buffer(device=_device(found), kind="kv", bytes=parse_size(found[1]), on_gpu=True), where)


def _host_cache(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.allocated(Buffer(device=f"CPU{found[2]}", kind="kv", bytes=parse_size(found[1]), on_gpu=False), where)


def _capacity(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("kv_capacity_tokens", parse_whole_number(found[1]), where)


def _concurrency(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("context_length", parse_whole_number(found[1]), where)
    reading.guess("kv_capacity_tokens", parse_whole_number(str(parse_whole_number(found[1]) * float(found[2]))), where)


def _blocks(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.guess(
        "kv_capacity_tokens", parse_whole_number(found[1]) * BLOCK_TOKENS, f"{where}: blocks of {BLOCK_TOKENS} tokens"
    )


def _free(reading: Reading, found: re.Match[str], where: str) -> None:
    name = found[1] or _device(found)
    free, total = reported(parse_size(found[2]), where), reported(parse_size(found[3]), where)
    reading.device(SeenDevice(name=name, free_bytes=free, total_bytes=total), where)


def _fraction(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("gpu_memory_fraction", min(float(found[1]), 1.0), where)


def _budget(reading: Reading, found: re.Match[str], where: str) -> None:
    """The older way to say it: all memory, the share of it, the weights, the rest."""
    reading.device(SeenDevice(name=_device(found), total_bytes=reported(parse_size(found[1]), where)), where)


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


_ATTENTION = re.compile(
    r"Using (?:AttentionBackendEnum\.)?([A-Za-z][\w-]{1,40}(?: (?:Attention|MLA|Attn|Unified))?)"
    r" (?:attention )?backend\b"
)
_ATTENTION_NEEDLES = (
    "attention backend",
    "backend on V1 engine",
    "backend out of potential",
    "Flash Attention backend",
    "FlashAttention",
    "FlashInfer backend",
    "FLASHINFER backend",
    "MLA backend",
    "XFormers backend",
    "_ATTN backend",
)


# SGLang borrows code of vLLM, and with it such lines
_LINE = re.compile(r"(DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]{1,80}\.py:\d{1,5}\] ?([^\n]{0,300})")


def _engine(reading: Reading, found: re.Match[str], where: str) -> None:
    """The one line that holds the whole configuration."""
    reading.start()
    if found[1]:
        reading.note("version", found[1], where)
    note_settings(reading, found[2], where)


def _arguments(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start()
    _snippet(reading, found, where)


def _snippet(reading: Reading, found: re.Match[str], where: str) -> None:
    note_settings(reading, found[1], where)
    if "context_length" in reading.facts and re.search(r"max_model_len['\"]?\s?[=:]", found[1]):
        reading.note("context_set", reading.facts["context_length"].value, where)


def _version(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start()
    reading.note("version", found[1].removeprefix("v").rstrip(".,"), where)


def _model(reading: Reading, found: re.Match[str], where: str) -> None:
    note_model(reading, found[1].removesuffix("..."), where)


def _length(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("context_length", parse_whole_number(found[1]), where)


def _reduced(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("context_length", parse_whole_number(found[2]), where)


def _chunk(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("max_batched_tokens", parse_whole_number(found[1]), where)


def _platform(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("device_used", found[1].lower(), where)


def _threads(reading: Reading, found: re.Match[str], where: str) -> None:
    """On the CPU it binds one thread to each of these cores."""
    reading.note("threads", len(found[1].split(",")), where)


def _attention(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("attention", found[1], where)


def _line(reading: Reading, found: re.Match[str], where: str) -> None:
    """Any line of its log is no prose; one of a warning is kept."""
    if found[1] == "WARNING" and found[2]:
        reading.warn(found[2], where)


def _eager(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.note("eager", value=True, where=where)


def _graphs(reading: Reading, _found: re.Match[str], where: str) -> None:
    """Graphs were captured, so they are used."""
    reading.note("eager", value=False, where=where)


START_RULES = (
    Rule(
        ("LLM engine",),
        re.compile(r"Initializing an? (?:V\d )?LLM engine(?: \(v([^)\s]{1,40})\))? with config: ?(.{0,8000})"),
        _engine,
    ),
    Rule(("non-default args:",), re.compile(r"non-default args: ?(\{.{0,8000})"), _arguments),
    Rule(("args: Namespace(",), re.compile(r"args: Namespace\((.{0,8000})"), _arguments),
    Rule(("LLM(",), re.compile(r"\bLLM\((.{1,4000})"), _snippet, own=False),
    Rule(("vLLM API server version",), re.compile(r"vLLM API server version:? (v?\d[\w.+-]{0,40})"), _version),
    Rule(("\u2588  version ",), re.compile("\u2588  version (v?\\d[\\w.+-]{0,40})"), _version),
    Rule(("Starting to load model",), re.compile(r"Starting to load model (\S{1,300})"), _model),
    Rule(("Using max model len",), re.compile(rf"Using max model len {NUMBER}"), _length),
    Rule(("Auto-fit max_model_len",), re.compile(rf"reduced from {NUMBER} to {NUMBER}"), _reduced),
    Rule(("Chunked prefill is enabled",), re.compile(r"max_num_batched_tokens=(\d{1,9})"), _chunk),
    Rule(
        ("Automatically detected platform",),
        re.compile(r"Automatically detected platform (\w{1,20})"),
        _platform,
        own=False,
    ),
    Rule(("core ids=[",), re.compile(r"local_rank=0, core ids=\[([\d, ]{1,4000})\]"), _threads),
    Rule(_ATTENTION_NEEDLES, _ATTENTION, _attention),
    Rule((".py:",), _LINE, _line, own=False),
    Rule(("Cudagraph is disabled",), re.compile("Cudagraph is disabled under eager mode"), _eager),
    Rule(("Enforce eager set",), re.compile("Enforce eager set, disabling"), _eager),
    Rule(("raph capturing finished",), re.compile("raph capturing finished in"), _graphs),
)


_SHOWN = 240


def _cache_failure(reading: Reading, found: re.Match[str], where: str, asked: int | None) -> None:
    text = masked_text(found.string[found.start() :])[:_SHOWN]
    failure = AllocationFailure(
        device="GPU", what="kv_cache", asked_bytes=NOT_LOOKED if asked is None else reported(asked, where), message=text
    )
    reading.fail(text, where, failure)


def _no_blocks(reading: Reading, found: re.Match[str], where: str) -> None:
    """The weights fill what vLLM may use."""
    _cache_failure(reading, found, where, None)


def _too_long(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("context_length", parse_whole_number(found[1]), where)
    if found[3]:
        reading.note("available_bytes", parse_size(found[3]), where)
    if found[4]:
        reading.note("kv_capacity_tokens", parse_whole_number(found[4]), where)
    _cache_failure(reading, found, where, parse_size(found[2]) if found[2] else None)


def _too_long_in_tokens(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("context_length", parse_whole_number(found[1]), where)
    reading.note("kv_capacity_tokens", parse_whole_number(found[2]), where)
    _cache_failure(reading, found, where, None)


def _weights_failure(reading: Reading, found: re.Match[str], where: str) -> None:
    failure = AllocationFailure(device="GPU", what="weights", message=found[0])
    reading.fail(found[0], where, failure)


def _failure(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.fail(found[0], where)


def _refused(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("gpu_refused", found[0], where)


TROUBLE_RULES = (
    Rule(("No available memory for the cache",), re.compile("No available memory for the cache blocks"), _no_blocks),
    Rule(
        ("To serve at least one request",),
        re.compile(
            rf"max seq len \({NUMBER}\), \({NUMBER} GiB KV cache is needed"
            rf"(?:.{{0,80}}KV cache memory \({NUMBER} GiB\))?(?:.{{0,120}}maximum model length is {NUMBER})?"
        ),
        _too_long,
    ),
    Rule(
        ("can be stored in KV cache",),
        re.compile(
            rf"max seq len \({NUMBER}\) is larger than the maximum number of tokens .{{0,60}}KV cache \({NUMBER}\)"
        ),
        _too_long_in_tokens,
    ),
    Rule(
        ("is less than desired GPU memory",),
        re.compile(r"Free memory on device.{0,80}is less than desired GPU memory utilization \([^)]{1,60}\)"),
        _failure,
    ),
    Rule(("Failed to load model - not",), re.compile("Failed to load model - not enough GPU memory"), _weights_failure),
    Rule(
        ("Engine core initialization failed",), re.compile(r"Engine core initialization failed[^\n]{0,120}"), _failure
    ),
    Rule(("No platform detected, vLLM",), re.compile(r"No platform detected, vLLM is running on \w{1,40}"), _refused),
    Rule(("Failed to infer device type",), re.compile("Failed to infer device type"), _refused),
)


# vLLM at work: the line it writes every ten seconds, preemptions, how drafts fare.
# What it calls prompt throughput is tokens over those ten seconds, mostly idle ones: no speed of reading prompts. It
# means to add its preemptions, but 0.32 sets their number back before it writes: a line without them rules none out.

_GENERATION = re.compile(r"Avg generation throughput: (\d{1,9}(?:\.\d{1,6})?)")
_PROMPT = re.compile(r"Avg prompt throughput: (\d{1,9}(?:\.\d{1,6})?)")
_RUNNING = re.compile(r"Running:? (\d{1,6}) req|\b(\d{1,6}) running\b")
_WAITING = re.compile(r"(?:Waiting|Pending):? (\d{1,6}) req|\b(\d{1,6}) (?:waiting|pending)\b")
_SWAPPED = re.compile(r"Swapped:? (\d{1,6}) req")
_USAGE = re.compile(r"(?<!C)PU KV cache usage\b([^,;\n]{1,60})")
_HOST_USAGE = re.compile(r"CPU KV cache usage\b([^,;\n]{1,60})")
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,4})?) ?%")


def _moment(reading: Reading, found: re.Match[str], where: str) -> None:
    """One line about the work, or a fragment of one."""
    line = found.string
    rate, prompt = _number(_GENERATION, line), _number(_PROMPT, line)
    waiting = [n for n in (_number(_WAITING, line), _number(_SWAPPED, line)) if n is not None]
    running = _number(_RUNNING, line)
    # How full the cache is; the highest of several figures, where somebody tells how it rose
    # on GPUs the other figure is about room for swapped requests
    part = _USAGE.search(line) or _HOST_USAGE.search(line)
    shares = [parse_share(text) for text in _PERCENT.findall(part[1])] if part else []
    reading.works(
        Moment(
            where=where,
            running=None if running is None else int(running),
            waiting=int(sum(waiting)) if waiting else None,
            usage=max(shares, default=None),
            tokens_per_s=rate,
            prefills=bool(prompt),
        )
    )


def _number(pattern: re.Pattern[str], line: str) -> float | None:
    found = pattern.search(line)
    return float(next(text for text in found.groups() if text)) if found else None


def _hits(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("prefix_hit_rate", parse_share(found[1]), where)


def _preempted_since(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.count("preemptions", parse_whole_number(found[1]), where)


def _preempted(reading: Reading, found: re.Match[str], where: str) -> None:
    """The first engine warns at every fiftieth and gives the sum."""
    reading.worked = True
    total = parse_whole_number(found[1]) if found[1] else reading.counted.get("preemptions", (0, ""))[0] + 1
    reading.counted.pop("preemptions", None)
    reading.count("preemptions", total, where)
    reading.warn(found[0][:200], where)


def _acceptance(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("draft_acceptance", parse_share(found[1]), where)


def _acceptance_share(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("draft_acceptance", min(float(found[1]), 1.0), where)


WORK_RULES = (
    Rule(
        ("Avg generation throughput:", "KV cache usage", "Waiting: "),
        re.compile(
            r"Avg generation throughput: \d|[GC]PU KV cache usage[^,;\n]{0,60}%|Running: \d{1,6} reqs?, [SW]\w{4,6}: \d"
        ),
        _moment,
    ),
    Rule(
        ("refix cache hit rate",),
        re.compile(r"(?<!External p)refix cache hit rate: (?:GPU: )?(\d{1,3}(?:\.\d{1,4})?)%"),
        _hits,
    ),
    Rule(("Preemptions: ",), re.compile(r"Preemptions: (\d{1,9})"), _preempted_since),
    Rule(
        ("is preempted by",),
        re.compile(
            rf"equence group \S{{1,60}} is preempted by[^\n]{{0,400}}?(?:total_num_cumulative_preemption={NUMBER}|$)"
        ),
        _preempted,
    ),
    Rule(("raft acceptance rate",), re.compile(r"Draft acceptance rate: (\d{1,3}(?:\.\d{1,4})?)%"), _acceptance),
    Rule(("Speculative metrics:",), re.compile(r"Draft acceptance rate: (\d(?:\.\d{1,6})?),"), _acceptance_share),
)


RULES = START_RULES + MEMORY_RULES + WORK_RULES + TROUBLE_RULES + TORCH_RULES

CHATTY = frozenset({"Avg generation throughput:", "KV cache usage", "Waiting: ", "refix cache hit rate", ".py:"})

DIALECT = LineDialect(needles_of(RULES), partial(RuleReader, "vLLM", RULES, alone=True), CHATTY | CHATTY_ANYWHERE)
