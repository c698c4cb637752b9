"""Why vLLM did not start, or runs without the GPU."""

import re

from unslow.facts.masking import masked_text
from unslow.facts.runtime import AllocationFailure
from unslow.facts.values import NOT_LOOKED, reported
from unslow.look.logs.serving_rules import NUMBER, Rule, size, whole
from unslow.look.logs.serving_state import Reading

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
    reading.note("context_length", whole(found[1]), where)
    if found[3]:
        reading.note("available_bytes", size(found[3]), where)
    if found[4]:
        reading.note("kv_capacity_tokens", whole(found[4]), where)
    _cache_failure(reading, found, where, size(found[2]) if found[2] else None)


def _too_long_in_tokens(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("context_length", whole(found[1]), where)
    reading.note("kv_capacity_tokens", whole(found[2]), where)
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
