"""Lines that every server in Python writes in the same words, and those that engines took from one another."""

import re

from unslow.facts.runtime import AllocationFailure
from unslow.facts.values import NOT_LOOKED, reported
from unslow.look.logs.serving_rules import Rule, nothing, size
from unslow.look.logs.serving_state import Reading

_SIZE = r"(\d{1,9}(?:\.\d{1,6})?) (GiB|MiB)"
_COMPLAINTS = (
    "erformance might be sub-optimal",
    "does not have native support for FP8",
    "degrade performance",
    "performance may be degraded",
    "in reduced performance",
    "may slow down",
    "cause a significant slowdown",
    "Custom allreduce is disabled",
)
_EMPTY = (
    ('HTTP/1.1" ', r'INFO: {1,8}[\w.:\[\]-]{3,60}:\d{1,5} - "[A-Z]{3,7} '),
    ("INFO:     ", r"INFO: {5}(?:Started server|Waiting for application|Application (?:startup|shutdown))"),
    (".cpp:", r"\[[EFIW]\d{4} \d\d:\d\d:\d\d\."),
    ("checkpoint shards:", r"checkpoint shards: {1,3}\d{1,3}% Completed"),
)
"""Lines that tell nothing, but are no prose."""
CHATTY_ANYWHERE = frozenset({'HTTP/1.1" ', "INFO:     "})
_BEFORE, _AFTER = 200, 200


def _out_of_memory(reading: Reading, found: re.Match[str], where: str) -> None:
    asked = reported(size(found[2], found[3]), where) if found[2] else NOT_LOOKED
    device = f"GPU {found[4]}" if found[4] else "GPU"
    failure = AllocationFailure(device=device, what="unknown", asked_bytes=asked, message=found[0])
    reading.fail(found[0], where, failure)


def _forced(reading: Reading, found: re.Match[str], where: str) -> None:
    """A slow kernel runs because somebody named it."""
    reading.note("quantization", found[1], where)
    reading.note("kernel", found[1], where)
    reading.warn(found[0], where)


def _not_optimised(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("quantization", found[1], where)
    reading.warn(found[0], where)


def _converted(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("kernel", found[1], where)


def _kernel(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.guess("kernel", found[1], where)


def _cast(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("weights_type", found[1], where)


def _warned(reading: Reading, found: re.Match[str], where: str) -> None:
    """A sentence about speed, from where the message starts: before it stand its time and its place in the source."""
    line, at = found.string, found.start()
    start = max(line.rfind("] ", 0, at) + 2 if "] " in line[:at] else 0, at - _BEFORE)
    reading.warn(line[start : at + _AFTER].strip(), where)


TORCH_RULES = (
    Rule(
        ("out of memory",),
        re.compile(
            rf"((?:CUDA|HIP|XPU) out of memory)(?:\. Tried to allocate {_SIZE})?"
            r"(?:[. (]{1,3}GPU (\d{1,3}))?[^\n]{0,160}"
        ),
        _out_of_memory,
        own=False,
    ),
    Rule(
        ("explicitly, so forcing", "quantization=awq explicitly", "quantization=gptq explicitly"),
        re.compile(
            r"(?:can run with \w{1,40}, however )?(?:you specified )?quantization=(\w{1,40}) explicitly[^\n]{0,120}"
        ),
        _forced,
        own=False,
    ),
    Rule(
        ("quantization is not fully optimized",),
        re.compile(r"\b(\w{1,40}) quantization is not fully optimized yet[^\n]{0,90}"),
        _not_optimised,
        own=False,
    ),
    Rule(("during runtime. Using",), re.compile(r"during runtime\. Using (\w{1,40}) kernel"), _converted, own=False),
    Rule(
        ("LinearMethod", "for CompressedTensors", " GEMM", "for mixed-precision linear"),
        re.compile(
            r"Using (\w{1,60}) for (?:\w{1,60}LinearMethod|CompressedTensors\w|\w{1,20} GEMM|mixed-precision linear)"
        ),
        _kernel,
        own=False,
    ),
    Rule(("Casting torch.",), re.compile(r"Casting torch\.\w{1,20} to torch\.(\w{1,20})"), _cast, own=False),
    *(Rule((needle,), re.compile(pattern), nothing, own=False) for needle, pattern in _EMPTY),
    Rule(_COMPLAINTS, re.compile("|".join(map(re.escape, _COMPLAINTS))), _warned, own=False),
)
