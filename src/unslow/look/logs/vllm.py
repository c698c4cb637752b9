"""vLLM's log, of both engines: `LEVEL MM-DD HH:MM:SS [file.py:line] message` and bare messages.

Every process of a server writes into it, with a name before the level or without; people quote fragments.
"""

import re
from functools import partial

from unslow.facts.masking import masked_text
from unslow.facts.runtime import AllocationFailure, SeenDevice
from unslow.facts.values import NOT_LOOKED, reported_fact
from unslow.look.logs.dialect import Rules
from unslow.look.logs.serving_rules import fail_to_allocate, gpu_of_worker, note_model, note_settings, serving_dialect
from unslow.look.logs.serving_state import (
    NUMBER,
    Moment,
    Reading,
    parse_fraction,
    parse_share,
    parse_size,
    parse_whole_number,
)

RULES = Rules[Reading]()
BLOCK_TOKENS = 16  # Tokens in a block of the cache unless vLLM is told otherwise; the oldest logs count blocks only
_RANK = re.compile(r"(?:TP|tp_rank[=:]? ?|[Rr]ank[=: ])(\d{1,3})(?!\d)")
_device = partial(gpu_of_worker, rank=_RANK)
_AMOUNT = r"(\d{1,9}(?:\.\d{1,6})?)"
_CONCURRENCY = rf"Maximum concurrency for {NUMBER} tokens per request: {_AMOUNT}x"
_GENERATION = re.compile(rf"Avg generation throughput: {_AMOUNT}")
_PROMPT = re.compile(rf"Avg prompt throughput: {_AMOUNT}")
_RUNNING = re.compile(r"Running:? (\d{1,6}) req|\b(\d{1,6}) running\b")
_WAITING = re.compile(r"(?:Waiting|Pending):? (\d{1,6}) req|\b(\d{1,6}) (?:waiting|pending)\b")
_SWAPPED = re.compile(r"Swapped:? (\d{1,6}) req")
_USAGE = re.compile(r"(?<!C)PU KV cache usage\b([^,;\n]{1,60})")
_HOST_USAGE = re.compile(r"CPU KV cache usage\b([^,;\n]{1,60})")
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,4})?) ?%")
_NO_GRAPHS = re.compile(r"cudagraph_mode['\"]?\s?[=:]\s?(?:<?CUDAGraphMode\.NONE\b|['\"]?(?i:none)\b|0\b)")
_IN_PIECES = re.compile(r"cudagraph_mode['\"]?\s?[=:]\s?(?:<?CUDAGraphMode\.PIECEWISE\b|['\"]?PIECEWISE\b|1\b)")
_OFFLOADS_SINCE = (0, 28)  # vllm/v1/worker/gpu/model_runner.py
_CHATTY = ("Avg generation throughput:", "KV cache usage", "Waiting: ", "refix cache hit rate", ".py:")


@RULES("LLM engine", r"Initializing an? (?:V\d )?LLM engine(?: \(v([^)\s]{1,40})\))? with config: ?(.{0,8000})")
def _engine(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start()
    if found[1]:
        reading.note("version", found[1], where)
    note_settings(reading, found[2], where)
    if _NO_GRAPHS.search(found[2]):  # the switch named enforce_eager says nothing of this
        reading.note("eager", value=True, where=where)


@RULES("args: Namespace(", r"args: Namespace\((.{0,8000})")
@RULES("non-default args:", r"non-default args: ?(\{.{0,8000})")
def _arguments(reading: Reading, found: re.Match[str], where: str, *, start: bool = True) -> None:
    if start:
        reading.start()
    note_settings(reading, found[1], where)
    if _NO_GRAPHS.search(found[1]):
        reading.note("eager", value=True, where=where)
    if _IN_PIECES.search(found[1]):  # as it was told: a kernel that can't be recorded whole makes it the mode as well
        reading.note("graphs_without_attention", value=True, where=where)
    if "context_length" in reading.facts and re.search(r"max_model_len['\"]?\s?[=:]", found[1]):
        reading.note("context_set", reading.facts["context_length"].value, where)


RULES("LLM(", r"\bLLM\((.{1,4000})", own=False)(partial(_arguments, start=False))


@RULES(("vLLM API server version", "\u2588  version "), r"(?:vLLM API server version:?|█  version) (v?\d[\w.+-]{0,40})")
def _version(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start()
    reading.note("version", found[1].removeprefix("v").rstrip(".,"), where)


RULES("Starting to load model", r"Starting to load model (\S{1,300})")(
    lambda reading, found, where: note_model(reading, found[1].removesuffix("..."), where)
)
RULES.note("context_length", "Using max model len", rf"Using max model len {NUMBER}", parse_whole_number)
RULES.note("context_length", "Auto-fit max_model_len", rf"reduced from [\d,.]{{1,25}} to {NUMBER}", parse_whole_number)
RULES.note("max_batched_tokens", "Chunked prefill is enabled", r"max_num_batched_tokens=(\d{1,9})", parse_whole_number)
RULES.note(
    "device_used",
    "Automatically detected platform",
    r"Automatically detected platform (\w{1,20})",
    str.lower,
    own=False,
)
# On the CPU it binds one thread to each of these cores
RULES.note("threads", "core ids=[", r"local_rank=0, core ids=\[([\d, ]{1,4000})\]", lambda cores: len(cores.split(",")))
RULES.note(
    "attention",
    (
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
    ),
    r"Using (?:AttentionBackendEnum\.)?([A-Za-z][\w-]{1,40}(?: (?:Attention|MLA|Attn|Unified))?)"
    r" (?:attention )?backend\b",
)


# SGLang borrows code of vLLM, and with it such lines
@RULES(
    ".py:",
    r"(DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]{1,80}\.py:\d{1,5}\] ?([^\n]{0,300})",
    own=False,
)
def _log_line(reading: Reading, found: re.Match[str], where: str) -> None:
    if found[1] == "WARNING" and found[2]:
        reading.warn(found[2], where)


@RULES("Using V2 Model Runner", r"Using V2 Model Runner")
def _second_runner(reading: Reading, found: re.Match[str], where: str) -> None:
    """Before 0.28 this one keeps all weights on the GPU, whatever --cpu-offload-gb says: it makes no offloader."""
    version = reading.facts.get("version")
    numbers = re.match(r"(\d{1,4})\.(\d{1,4})", version.value) if version else None
    if numbers and (int(numbers[1]), int(numbers[2])) < _OFFLOADS_SINCE:
        reading.note("cpu_offload_bytes", 0, f"{where}: {found[0]}, which offloads nothing")


RULES.note_value("eager", "Cudagraph is disabled", "Cudagraph is disabled under eager mode", value=True)
RULES.note_value("eager", "Skipping CUDA graph capture", "Skipping CUDA graph capture", value=True)
RULES.note_value("eager", "Enforce eager set", "Enforce eager set, disabling", value=True)
RULES.note_value("eager", "raph capturing finished", "raph capturing finished in", value=False)
RULES(
    ("Model loading took", "Loading model weights took", "model weights take"),
    rf"(?:Model loading took|Loading model weights took|model weights take) {_AMOUNT} ?(?:GiB|GB)",
)(lambda reading, found, where: reading.add_buffer("model", _device(found), parse_size(found[1]), where))
RULES(
    ("Available KV cache memory", "memory reserved for KV Cache"),
    rf"(?:Available KV cache memory: {_AMOUNT} |reserved for KV Cache is {_AMOUNT} ?)GiB",
)(lambda reading, found, where: reading.add_buffer("kv", _device(found), parse_size(found[1] or found[2]), where))
RULES("GiB for KV cache on node", rf"set \({_AMOUNT}/[\d.]{{1,15}}\) GiB for KV cache on node (\d{{1,3}})")(
    lambda reading, found, where: reading.add_buffer("kv", f"CPU{found[2]}", parse_size(found[1]), where)
)
RULES.note("kv_capacity_tokens", "KV cache size", rf"\b[CGX]PU KV cache size: {NUMBER} tokens", parse_whole_number)
RULES.note("context_length", "Maximum concurrency for", _CONCURRENCY, parse_whole_number)
RULES("Maximum concurrency for", _CONCURRENCY)(
    lambda reading, found, where: reading.guess(
        "kv_capacity_tokens", parse_whole_number(str(parse_whole_number(found[1]) * float(found[2]))), where
    )
)
RULES(("# GPU blocks:", "# CUDA blocks:", "# cuda blocks:"), r"# (?:GPU|CUDA|cuda) blocks: (\d{1,9})")(
    lambda reading, found, where: reading.guess(
        "kv_capacity_tokens", parse_whole_number(found[1]) * BLOCK_TOKENS, f"{where}: blocks of {BLOCK_TOKENS} tokens"
    )
)


# The older way to say it: all memory, the share of it, the weights, the rest
@RULES("total_gpu_memory (", rf"total_gpu_memory \((?P<total>{_AMOUNT}) ?GiB\)")
@RULES(
    "Free memory on device",
    rf"Free memory on device ?(?P<name>\w{{1,20}}:\d{{1,3}})? ?\((?P<free>{_AMOUNT})/(?P<total>{_AMOUNT}) GiB\)",
)
def _memory(reading: Reading, found: re.Match[str], where: str) -> None:
    said = found.groupdict()
    device = SeenDevice(
        name=said.get("name") or _device(found),
        free_bytes=reported_fact(parse_size(said["free"]), where) if "free" in said else NOT_LOOKED,
        total_bytes=reported_fact(parse_size(said["total"]), where),
    )
    reading.device(device, where)


for _needle, _pattern in (
    ("GPU memory utilization", r"esired GPU memory utilization (?:is )?\(([01]?\.\d{1,6}|1)\b"),
    ("x gpu_memory_utilization", r"gpu_memory_utilization \(([01]?\.\d{1,6}|1(?:\.0{1,6})?)\)"),
    ("gpu_memory_utilization=", r"\bgpu_memory_utilization=([01]?\.\d{1,6})"),
):
    RULES.note("gpu_memory_fraction", _needle, _pattern, parse_fraction)


@RULES(
    ("Avg generation throughput:", "KV cache usage", "Waiting: "),
    r"Avg generation throughput: \d|[GC]PU KV cache usage[^,;\n]{0,60}%|Running: \d{1,6} reqs?, [SW]\w{4,6}: \d",
)
def _moment(reading: Reading, found: re.Match[str], where: str) -> None:
    """The line that it writes every ten seconds.

    What it calls prompt throughput is tokens over those ten seconds, mostly idle ones: no speed of reading prompts. It
    means to add its preemptions, but 0.32 sets their number back before it writes: a line without them rules none out.
    """
    line = found.string
    waiting = [n for n in (_number(_WAITING, line), _number(_SWAPPED, line)) if n is not None]
    running = _number(_RUNNING, line)
    # How full the cache is; the highest of several figures, where a text says how it rose
    # on GPUs the other figure is about room for swapped requests
    part = _USAGE.search(line) or _HOST_USAGE.search(line)
    shares = [parse_share(text) for text in _PERCENT.findall(part[1])] if part else []
    reading.works(
        Moment(
            where=where,
            running=None if running is None else int(running),
            waiting=int(sum(waiting)) if waiting else None,
            usage=max(shares, default=None),
            tokens_per_s=_number(_GENERATION, line),
            prefills=bool(_number(_PROMPT, line)),
        )
    )


RULES.note(
    "prefix_hit_rate",
    "refix cache hit rate",
    r"(?<!External p)refix cache hit rate: (?:GPU: )?(\d{1,3}(?:\.\d{1,4})?)%",
    parse_share,
)
RULES("Preemptions: ", r"Preemptions: (\d{1,9})")(
    lambda reading, found, where: reading.count("preemptions", parse_whole_number(found[1]), where)
)


@RULES(
    "is preempted by",
    rf"equence group \S{{1,60}} is preempted by[^\n]{{0,400}}?(?:total_num_cumulative_preemption={NUMBER}|$)",
)
def _preemptions(reading: Reading, found: re.Match[str], where: str) -> None:
    """The first engine warns at every fiftieth and gives the sum."""
    reading.worked = True
    total = parse_whole_number(found[1]) if found[1] else reading.counted.get("preemptions", (0, ""))[0] + 1
    reading.counted.pop("preemptions", None)
    reading.count("preemptions", total, where)
    reading.warn(found[0][:200], where)


RULES.note("draft_acceptance", "raft acceptance rate", r"Draft acceptance rate: (\d{1,3}(?:\.\d{1,4})?)%", parse_share)
RULES.note("draft_acceptance", "Speculative metrics:", r"Draft acceptance rate: (\d(?:\.\d{1,6})?),", parse_fraction)


@RULES(
    "can be stored in KV cache",
    rf"max seq len \((?P<context_length>{NUMBER})\) is larger than the maximum number of tokens .{{0,60}}"
    rf"KV cache \((?P<kv_capacity_tokens>{NUMBER})\)",
)
@RULES(
    "To serve at least one request",
    rf"max seq len \((?P<context_length>{NUMBER})\), \((?P<asked_bytes>{NUMBER}) GiB KV cache is needed"
    rf"(?:.{{0,80}}KV cache memory \((?P<available_bytes>{NUMBER}) GiB\))?"
    rf"(?:.{{0,120}}maximum model length is (?P<kv_capacity_tokens>{NUMBER}))?",
)
@RULES("No available memory for the cache", "No available memory for the cache blocks")
def _cache_failure(reading: Reading, found: re.Match[str], where: str) -> None:
    """The weights fill what vLLM may use, or one request may be longer than the room that is left."""
    said = {
        name: parse_size(text) if name.endswith("_bytes") else parse_whole_number(text)
        for name, text in found.groupdict().items()
        if text
    }
    asked = said.pop("asked_bytes", None)
    for name, value in said.items():
        reading.note(name, value, where)
    text = masked_text(found.string[found.start() :])[:240]
    failure = AllocationFailure(
        device="GPU",
        what="kv_cache",
        asked_bytes=NOT_LOOKED if asked is None else reported_fact(asked, where),
        message=text,
    )
    reading.fail(text, where, failure)


RULES("Failed to load model - not", "Failed to load model - not enough GPU memory")(
    partial(fail_to_allocate, "weights")
)
RULES(
    ("is less than desired GPU memory", "Engine core initialization failed"),
    r"Free memory on device.{0,80}is less than desired GPU memory utilization \([^)]{1,60}\)"
    r"|Engine core initialization failed[^\n]{0,120}",
)(lambda reading, found, where: reading.fail(found[0], where))
RULES.note(
    "gpu_refused",
    ("No platform detected, vLLM", "Failed to infer device type", "No CUDA runtime is found", "for 0 devices"),
    r"No platform detected, vLLM is running on \w{1,40}|Failed to infer device type|No CUDA runtime is found"
    r"|local rank \d{1,4} is out of bounds for 0 devices",
)


def _number(pattern: re.Pattern[str], line: str) -> float | None:
    found = pattern.search(line)
    return float(next(text for text in found.groups() if text)) if found else None


DIALECT = serving_dialect("vLLM", RULES, *_CHATTY, alone=True)
