"""Lines that tell how a load ended and how fast requests were."""

import re
from typing import Literal

import msgspec

from unslow.facts.run import Completion
from unslow.facts.runtime import AllocationFailure
from unslow.facts.values import NOT_LOOKED, Fact, reported
from unslow.look.logs.llama_cpp.loads import Load
from unslow.look.logs.llama_cpp.memory import mib
from unslow.look.logs.llama_cpp.state import Reading, Rule

What = Literal["weights", "kv_cache", "compute_buffer", "unknown"]
_MOST_MESSAGE = 300
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
    _note(reading, found, where, f"{reading.init_kind}{found[2]}", mib(found[1]))


def _named_allocation(reading: Reading, found: re.Match[str], where: str) -> None:
    _note(reading, found, where, found[1], int(found[2]))


def _vulkan_allocation(reading: Reading, found: re.Match[str], where: str) -> None:
    _note(reading, found, where, "Vulkan", int(found[1]))


def _metal_allocation(reading: Reading, found: re.Match[str], where: str) -> None:
    _note(reading, found, where, "Metal", mib(found[1]))


def _host_allocation(reading: Reading, found: re.Match[str], where: str) -> None:
    _note(reading, found, where, "CPU", int(found[1]) if found[1] else mib(found[2]))


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
RULES = (
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
