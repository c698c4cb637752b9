"""Lines after a load: how it ended, how fast requests were, drafts, and complaints."""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from unslow.facts.run import Completion
from unslow.facts.runtime import AllocationFailure
from unslow.facts.values import NOT_LOOKED, Fact, reported
from unslow.look.logs.llama_cpp.load_lines import parse_mib
from unslow.look.logs.llama_cpp.state import Load, Reading, Rule

_MOST_MESSAGE = 300


def _kind(kind: str, needle: str, pattern: str) -> Rule:
    def take(reading: Reading, found: re.Match[str], where: str) -> None:
        reading.warn(kind, found[0].strip()[:_MOST_MESSAGE], where)

    return Rule(needle, re.compile(pattern), take)


COMPLAINT_RULES = (
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


What = Literal["weights", "kv_cache", "compute_buffer", "unknown"]

_MOST_BYTES = 2**60


def _load_starts(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start_load(found.string, where)
    reading.load.facts["state"] = reported("loading", where)


def _loaded(reading: Reading, found: re.Match[str], where: str) -> None:
    """Whatever failed on the way was tried again with success."""
    load = reading.load
    if load.facts.get("state", NOT_LOOKED).value_or("") == "loaded":
        return
    reading.read_clock(found.string)
    load.facts["state"] = reported("loaded", where)
    load.facts.pop("load_error", None)
    load.failure = None
    if load.started_s is not None and reading.seconds is not None and reading.seconds >= load.started_s:
        load.facts["load_s"] = reported(round(reading.seconds - load.started_s, 3), where)


def _error(reading: Reading, found: re.Match[str], where: str) -> None:
    """The first error of a load names the reason; those after it only follow."""
    state = reading.load.facts.get("state", NOT_LOOKED).value_or("")
    if state != "loaded":
        reading.load.facts.setdefault("load_error", reported(found[1].strip()[:_MOST_MESSAGE], where))


def _load_failed(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.load.placed = True
    reading.load.facts["state"] = reported("failed", where)


def _phase(load: Load) -> What:
    """What was being allocated, judged by what had been printed before."""
    context = load.current.context
    if not context.facts:
        return "weights"
    return "compute_buffer" if context.caches else "kv_cache"


def _note(reading: Reading, found: re.Match[str], where: str, device: str, asked: int) -> None:
    """Keep the first words of a failure; later lines make its device and size exact."""
    load = reading.load
    size: Fact[int] = reported(asked, where) if 0 < asked < _MOST_BYTES else NOT_LOOKED
    if load.failure is None:
        message = found[0].strip()[:_MOST_MESSAGE]
        load.failure = AllocationFailure(device=device, what=_phase(load), asked_bytes=size, message=message)
        load.failure_where = where
    elif size != NOT_LOOKED:
        load.failure = msgspec.structs.replace(load.failure, device=device, asked_bytes=size)


def _device_allocation(reading: Reading, found: re.Match[str], where: str) -> None:
    _note(reading, found, where, f"{reading.init_kind}{found[2]}", parse_mib(found[1]))


def _named_allocation(reading: Reading, found: re.Match[str], where: str) -> None:
    _note(reading, found, where, found[1], int(found[2]))


def _vulkan_allocation(reading: Reading, found: re.Match[str], where: str) -> None:
    _note(reading, found, where, "Vulkan", int(found[1]))


def _metal_allocation(reading: Reading, found: re.Match[str], where: str) -> None:
    _note(reading, found, where, "Metal", parse_mib(found[1]))


def _host_allocation(reading: Reading, found: re.Match[str], where: str) -> None:
    _note(reading, found, where, "CPU", int(found[1]) if found[1] else parse_mib(found[2]))


def _confirmed(reading: Reading, found: re.Match[str], where: str, what: What, device: str = "") -> None:
    load = reading.load
    _note(reading, found, where, device, 0)
    if load.failure:
        load.failure = msgspec.structs.replace(load.failure, what=what, device=load.failure.device or device)
    _load_failed(reading, found, where)


def _weights_failed(reading: Reading, found: re.Match[str], where: str) -> None:
    _confirmed(reading, found, where, "weights", found[1])


def _kv_failed(reading: Reading, found: re.Match[str], where: str) -> None:
    _confirmed(reading, found, where, "kv_cache")


def _compute_failed(reading: Reading, found: re.Match[str], where: str) -> None:
    """With several GPUs llama.cpp tries once more without pipelining: only the last word counts."""
    _confirmed(reading, found, where, "compute_buffer")


def _crashed(reading: Reading, found: re.Match[str], where: str) -> None:
    _confirmed(reading, found, where, _phase(reading.load))


def _retried(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.load.failure = None
    reading.load.facts["state"] = reported("loading", where)


def _timing(reading: Reading, found: re.Match[str], where: str) -> None:
    """The server counts the first token, which the prompt gave; the library counts runs, which come after it."""
    name, milliseconds, count, unit = found.groups()
    tokens, seconds = int(count), float(milliseconds) / 1000
    load = reading.load
    if name == "prompt eval":
        load.prompt = (tokens, seconds)
        return
    generated = tokens + 1 if unit == "runs" and name == "eval" else tokens
    prompt_tokens, prefill_s = load.prompt
    load.prompt = (0, 0.0)
    if generated:
        done = Completion(
            prompt_tokens=prompt_tokens, generated_tokens=generated, prefill_s=prefill_s, decode_s=seconds
        )
        load.completions.append(done)
        load.completions_where = where


def _load_time(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.load.facts.setdefault("load_s", reported(float(found[1]) / 1000, where))


_MIB = r"([\d.]+) MiB"
_MS = r"(\d{1,12}(?:\.\d{1,6})?) ms"
OUTCOME_RULES = (
    Rule("loading model", re.compile(r"loading model(?: '|$)"), _load_starts, weak=True),
    Rule(" E ", re.compile(r"\d E (.+)"), _error, weak=True),
    Rule("error loading model", re.compile(r"(error loading model\b.*)"), _error, weak=True),
    Rule("model loaded", re.compile(r"\bmodel loaded\b"), _loaded, weak=True),
    Rule("all slots are idle", re.compile("all slots are idle"), _loaded),
    Rule(
        "loading model", re.compile("error loading model|exiting due to model loading error"), _load_failed, weak=True
    ),
    Rule(" MiB on device ", re.compile(rf"allocating {_MIB} on device (\d+): .*"), _device_allocation),
    Rule("failed to allocate ", re.compile(r"failed to allocate (\S+) buffer of size (\d{1,18})"), _named_allocation),
    Rule(
        "allocation of size ", re.compile(r"Device memory allocation of size (\d{1,18}) failed.*"), _vulkan_allocation
    ),
    Rule("buffer, size = ", re.compile(rf"failed to allocate buffer, size =\s+{_MIB}"), _metal_allocation),
    Rule(
        "failed to allocate buffer of size",
        re.compile(r"failed to allocate buffer of size (\d{1,18})()"),
        _host_allocation,
    ),
    Rule(
        "insufficient memory",
        re.compile(r"insufficient memory \(attempted to allocate()\s+([\d.]+) MB\)"),
        _host_allocation,
    ),
    Rule("unable to allocate ", re.compile(r"unable to allocate (\S+) buffer"), _weights_failed),
    Rule("failed to allocate buffer for ", re.compile(r"failed to allocate buffer for (?:kv|rs|DSV4) \w+"), _kv_failed),
    Rule("failed to allocate compute ", re.compile(r"failed to allocate compute (?:pp |tg )?buffers"), _compute_failed),
    Rule("error: out of memory", re.compile(r"(?:CUDA|ROCm|HIP) error: out of memory"), _crashed, weak=True),
    Rule("retrying without pipeline", re.compile("retrying without pipeline parallelism"), _retried),
    Rule(
        "eval time",
        re.compile(rf"\b(prompt eval|generation eval|eval) time\s*=\s*{_MS} /\s*(\d{{1,12}}) (tokens|runs)"),
        _timing,
    ),
    Rule("load time", re.compile(rf"\bload time\s*=\s*{_MS}"), _load_time, weak=True),
)


_AGAIN = "forcing full prompt re-processing"
COUNTED = {_AGAIN: "prompts_reprocessed"}
"""Lines that are counted, and the fact that the count is."""
_LEAST_TOKENS = 300
"""Before that, a window of three seconds is a large part of the mean it is held against."""


def counted(reading: Reading) -> Iterator[tuple[str, tuple[int, str]]]:
    """The counts by the names of their facts."""
    return (
        (fact, reading.counts[needle])
        for needle, fact in COUNTED.items()
        if needle in reading.counts and reading.counts[needle][1]
    )


def _read_again(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.count(_AGAIN, 1, where)


def _drafted(reading: Reading, found: re.Match[str], where: str) -> None:
    """All requests of a load together: a short one says little."""
    load = reading.load
    load.accepted += int(found[1])
    load.drafted += int(found[2])
    if load.accepted <= load.drafted and load.drafted:
        load.facts["draft_acceptance"] = reported(round(load.accepted / load.drafted, 4), where)


def _acceptance(reading: Reading, found: re.Match[str], where: str) -> None:
    share = float(found[1]) / 100
    if share <= 1:
        reading.load.facts["draft_acceptance"] = reported(round(share, 4), where)


def _window(reading: Reading, found: re.Match[str], where: str) -> None:
    """The mean and the last three seconds of the answer that fell furthest."""
    tokens, mean, last = int(found[1]), float(found[2]), float(found[3])
    if tokens < _LEAST_TOKENS or mean <= 0:
        return
    share, load = min(1.0, last / mean), reading.load
    if load.decay is None or share < load.decay.value:
        load.decay = reported(round(share, 4), where)


def _rates(reading: Reading, found: re.Match[str], where: str) -> None:
    """llama-cli prints its speeds without counts."""
    reading.load.rates = (reported(float(found[1]), where), reported(float(found[2]), where))


def _top_k(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.load.facts["top_k"] = reported(int(found[1]), where)


def _draft_model(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.load.facts["speculative"] = reported(found[1].strip("'"), where)


_RATE = r"(\d{1,7}(?:\.\d{1,3})?)"
REQUEST_RULES = (
    Rule(_AGAIN, re.compile(_AGAIN), _read_again),
    Rule(
        "draft acceptance",
        re.compile(r"draft acceptance(?: rate)? = [\d.]{1,12} \(\s*(\d{1,9}) accepted /\s*(\d{1,9}) generated\)"),
        _drafted,
    ),
    Rule("accept  ", re.compile(r"\baccept\s+= (\d{1,3}(?:\.\d{1,6})?)%"), _acceptance),
    Rule("tg_3s", re.compile(rf"n_gen =\s*(\d{{1,9}}), tg =\s*{_RATE} t/s, tg_3s =\s*{_RATE} t/s"), _window),
    Rule("[ Prompt: ", re.compile(rf"\[ Prompt: {_RATE} t/s \| Generation: {_RATE} t/s \]"), _rates),
    Rule("top_k = ", re.compile(r"\btop_k = (-?\d{1,9}), (?:tfs_z|top_p) = "), _top_k),
    Rule("loading draft model", re.compile(r"loading draft model '?([^']{1,400})"), _draft_model),
)
