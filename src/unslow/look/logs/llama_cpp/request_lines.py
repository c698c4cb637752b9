"""Lines after a load: how it ended, how fast requests were, drafts, and complaints."""

import re
from collections.abc import Callable
from functools import partial
from typing import Literal

import msgspec

from unslow.facts.run import Completion
from unslow.facts.runtime import AllocationFailure
from unslow.facts.values import NOT_LOOKED, Fact, reported_fact
from unslow.look.logs.dialect import Rules
from unslow.look.logs.llama_cpp.load_lines import parse_mib
from unslow.look.logs.llama_cpp.state import KEPT_OF_A_KIND, Load, Reading, keep

RULES = Rules[Reading]()
What = Literal["weights", "kv_cache", "compute_buffer", "unknown"]
_AGAIN = "forcing full prompt re-processing"
COUNTED = {_AGAIN: "prompts_reprocessed"}  # Lines that are counted, and the fact that the count is
_LONG_PROMPT = 64  # Tokens
_MOST_MESSAGE = 300
_MOST_BYTES = 2**60
_LEAST_TOKENS = 300  # Before that, a window of three seconds is a large part of the mean it is held against
_MIB = r"(?P<size>[\d.]+) MiB"
_MS = r"(\d{1,12}(?:\.\d{1,6})?) ms"
_RATE = r"(\d{1,7}(?:\.\d{1,3})?)"


@RULES("loading model", r"loading model(?: '|$)", own=False)
def _load_starts(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start_load(found.string, where)
    reading.load.facts["state"] = reported_fact("loading", where)


@RULES("error loading model", r"(error loading model\b.*)", own=False)
@RULES(" E ", r"\d E (.+)", own=False)
def _error(reading: Reading, found: re.Match[str], where: str) -> None:
    """The first error of a load names the reason; those after it only follow."""
    state = reading.load.facts.get("state", NOT_LOOKED).value_or("")
    if state != "loaded":
        reading.load.facts.setdefault("load_error", reported_fact(found[1].strip()[:_MOST_MESSAGE], where))


@RULES("all slots are idle", "all slots are idle")
@RULES("model loaded", r"\bmodel loaded\b", own=False)
def _load_done(reading: Reading, found: re.Match[str], where: str) -> None:
    """Whatever failed on the way was tried again with success."""
    load = reading.load
    if load.facts.get("state", NOT_LOOKED).value_or("") == "loaded":
        return
    reading.read_clock(found.string)
    load.facts["state"] = reported_fact("loaded", where)
    load.facts.pop("load_error", None)
    load.failure = None
    if load.started_s is not None and reading.seconds is not None and reading.seconds >= load.started_s:
        load.facts["load_s"] = reported_fact(round(reading.seconds - load.started_s, 3), where)


@RULES("exiting due to model loading", "exiting due to model loading error", own=False)
@RULES("loading model", "error loading model", own=False)
def _load_failed(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.load.placed = True
    reading.load.facts["state"] = reported_fact("failed", where)


def _allocation(device: str, size: Callable[[str], int], reading: Reading, found: re.Match[str], where: str) -> None:
    name = device.format(kind=reading.init_kind, **found.groupdict())
    _note(reading, found, where, name, size(found["size"]))


for _device, _size, _needle, _pattern in (
    ("{kind}{number}", parse_mib, " MiB on device ", rf"allocating {_MIB} on device (?P<number>\d+): .*"),
    ("{name}", int, "failed to allocate ", r"failed to allocate (?P<name>\S+) buffer of size (?P<size>\d{1,18})"),
    ("Vulkan", int, "allocation of size ", r"Device memory allocation of size (?P<size>\d{1,18}) failed.*"),
    ("Metal", parse_mib, "buffer, size = ", rf"failed to allocate buffer, size =\s+{_MIB}"),
    ("CPU", int, "failed to allocate buffer of size", r"failed to allocate buffer of size (?P<size>\d{1,18})"),
    ("CPU", parse_mib, "insufficient memory", r"insufficient memory \(attempted to allocate\s+(?P<size>[\d.]+) MB\)"),
):
    RULES(_needle, _pattern)(partial(_allocation, _device, _size))


def _confirm(what: What | None, reading: Reading, found: re.Match[str], where: str) -> None:
    """The load failed, and this is what could not be allocated; None for what comes next by what was printed before."""
    load, device = reading.load, found[1] if found.re.groups else ""
    what = what or _phase(load)
    _note(reading, found, where, device, 0)
    if load.failure:
        load.failure = msgspec.structs.replace(load.failure, what=what, device=load.failure.device or device)
    _load_failed(reading, found, where)


_FAILURES: tuple[tuple[What | None, str, str], ...] = (
    ("weights", "unable to allocate ", r"unable to allocate (\S+) buffer"),
    ("kv_cache", "failed to allocate buffer for ", r"failed to allocate buffer for (?:kv|rs|DSV4) \w+"),
    # with several GPUs llama.cpp tries once more without pipelining: only the last word counts
    ("compute_buffer", "failed to allocate compute ", r"failed to allocate compute (?:pp |tg )?buffers"),
    (None, "error: out of memory", r"(?:CUDA|ROCm|HIP) error: out of memory"),
)
for _what, _needle, _pattern in _FAILURES:
    RULES(_needle, _pattern, own=_what is not None)(partial(_confirm, _what))


@RULES("retrying without pipeline", "retrying without pipeline parallelism")
def _load_retry(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.load.failure = None
    reading.load.facts["state"] = reported_fact("loading", where)


@RULES("eval time", rf"\b(prompt eval|generation eval|eval) time\s*=\s*{_MS} /\s*(\d{{1,12}}) (tokens|runs)")
def _timing(reading: Reading, found: re.Match[str], where: str) -> None:
    """The server counts the first token, which the prompt gave; the library counts runs, which come after it."""
    name, milliseconds, count, unit = found.groups()
    tokens, seconds = int(count), float(milliseconds) / 1000
    load = reading.load
    if name == "prompt eval":
        load.prompt = (tokens, seconds)
        return
    generated = tokens + 1 if unit == "runs" and name == "eval" else tokens
    (read, prefill_s), load.prompt = load.prompt, (0, 0.0)
    if generated:
        done = Completion(generated_tokens=generated, decode_s=seconds, prompt_tokens=read, prefill_s=prefill_s)
        load.completions.append(done)
        load.completions_where = where


RULES.note(
    "load_s",
    "load time",
    rf"\bload time\s*=\s*{_MS}",
    lambda milliseconds: float(milliseconds) / 1000,
    into="load.facts",
    own=False,
    first=True,
)


@RULES("| new prompt, ", r"\| new prompt, .{0,80}task\.n_tokens = (\d{1,12})")
def _prompt_begins(reading: Reading, found: re.Match[str], _where: str) -> None:
    reading.prompt_tokens = int(found[1])


@RULES(_AGAIN, _AGAIN)
def _read_again(reading: Reading, _found: re.Match[str], where: str) -> None:
    """One more prompt was read from its start; that of a few tokens always is, and costs nothing."""
    if reading.prompt_tokens is None or reading.prompt_tokens >= _LONG_PROMPT:
        reading.count(_AGAIN, 1, where)


@RULES(
    "draft acceptance", r"draft acceptance(?: rate)? = [\d.]{1,12} \(\s*(\d{1,9}) accepted /\s*(\d{1,9}) generated\)"
)
def _draft_counts(reading: Reading, found: re.Match[str], where: str) -> None:
    """All requests of a load together: a short one says little."""
    load = reading.load
    load.accepted += int(found[1])
    load.drafted += int(found[2])
    if load.accepted <= load.drafted and load.drafted:
        load.facts["draft_acceptance"] = reported_fact(round(load.accepted / load.drafted, 4), where)


RULES.note(
    "draft_acceptance",
    "accept  ",
    r"\baccept\s+= (\d{1,3}(?:\.\d{1,6})?)%",
    lambda percent: round(share, 4) if (share := float(percent) / 100) <= 1 else None,
    into="load.facts",
)


@RULES("tg_3s", rf"n_gen =\s*(\d{{1,9}}), tg =\s*{_RATE} t/s, tg_3s =\s*{_RATE} t/s")
def _window(reading: Reading, found: re.Match[str], where: str) -> None:
    """The mean and the last three seconds of the answer that fell furthest."""
    tokens, mean, last = int(found[1]), float(found[2]), float(found[3])
    if tokens < _LEAST_TOKENS or mean <= 0:
        return
    share, load = min(1.0, last / mean), reading.load
    if load.decay is None or share < load.decay.value:
        load.decay = reported_fact(round(share, 4), where)


@RULES("[ Prompt: ", rf"\[ Prompt: {_RATE} t/s \| Generation: {_RATE} t/s \]")
def _rates(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.load.rates = (reported_fact(float(found[1]), where), reported_fact(float(found[2]), where))


RULES.note("top_k", "top_k = ", r"\btop_k = (-?\d{1,9}), (?:tfs_z|top_p) = ", int, into="load.facts")
RULES.note("speculative", "loading draft model", r"loading draft model '?([^']{1,400})", into="load.facts")


def _complain(kind: str, reading: Reading, found: re.Match[str], where: str) -> None:
    """Remember a complaint, a few of each kind."""
    keep(reading.warnings, kind, reading.warnings.get(kind, []))
    if len(of_kind := reading.warnings.get(kind, [])) < KEPT_OF_A_KIND:
        of_kind.append((found[0].strip()[:_MOST_MESSAGE], where))


for _kind, _needle, _pattern in (
    ("mmap", "tensor overrides to CPU are used", r"tensor overrides to CPU are used with mmap.*"),
    ("mlock", "failed to mlock", r"failed to mlock .*"),
    ("fit", "failed to fit params", r"failed to fit params to free device memory.*"),
    ("context_cut", "context size reduced from", r"context size reduced from \d+ to \d+.*"),
    ("trained", "possible training context overflow", r"n_ctx\w{0,20} \(\d+\) > n_ctx_train \(\d+\).*"),
    ("fused", "is assigned to device", r"layer \d+ is assigned to device .{0,60} but .{0,90} assigned to device .*"),
    ("unsupported", "not supported, set to disabled", r"[\w ]{0,120}not supported, set to disabled.*"),
    (
        "quantised_v",
        "quantized V cache",
        r"enabling flash_attn since .*|quantized V cache (?:was requested|requires).*",
    ),
    ("nccl", "NCCL not compiled in", r"NCCL not compiled in.*"),
    ("pipeline", "retrying without pipeline", r"compute buffer allocation failed, retrying without pipeline.*"),
    ("cache_full", "failed to find free space in the KV", r"failed to find free space in the KV cache.*"),
    ("shift", "slot context shift", r"slot context shift.*"),
    ("cache_reuse", "cache reuse is not supported", r"cache reuse is not supported.*"),
    ("metal", "the recommended max working set", r"current allocated size .*recommended max working set.*"),
    ("software", "Device type is CPU", r"Device type is CPU.*"),
    ("library", "load_best: failed", r"load_best: failed to load .*"),
    ("evicted", "failed to load prompt from cache", r"failed to load prompt from cache.*"),
    ("capped", "exceeds the training context", r"the slot context \(\d+\) exceeds the training context.*"),
):
    RULES(_needle, _pattern)(partial(_complain, _kind))


def _note(reading: Reading, found: re.Match[str], where: str, device: str, asked: int) -> None:
    """Keep the first words of a failure; later lines make its device and size exact."""
    load = reading.load
    size: Fact[int] = reported_fact(asked, where) if 0 < asked < _MOST_BYTES else NOT_LOOKED
    if load.failure is None:
        message = found[0].strip()[:_MOST_MESSAGE]
        load.failure = AllocationFailure(device=device, what=_phase(load), asked_bytes=size, message=message)
        load.failure_where = where
    elif size != NOT_LOOKED:
        load.failure = msgspec.structs.replace(load.failure, device=device, asked_bytes=size)


def _phase(load: Load) -> What:
    context = load.current.context
    if not context.facts:
        return "weights"
    return "compute_buffer" if context.caches else "kv_cache"
