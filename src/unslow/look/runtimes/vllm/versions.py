"""In which version of vLLM what changed, and so what a setting is where nobody set it."""

import re
from typing import Any, NamedTuple

import msgspec

from unslow.facts.runtime import Runtime
from unslow.facts.values import Absence, Fact, Unknown, estimated, not_supported

Version = tuple[int, int]

ATTENTION_FLAG: Version = (0, 15)  # 2026-01-22: the variable VLLM_ATTENTION_BACKEND is read no more
FIRST_V1: Version = (0, 8)  # 2025-03: the second engine is the default, and with it the cache of prefixes


class Default(NamedTuple):
    """What a setting is since a version where nobody set it, and what it was before."""

    fact: str
    value: Any
    since: Version
    before: Any


DEFAULTS: tuple[Default, ...] = (
    Default("gpu_memory_fraction", 0.92, since=(0, 20), before=0.9),
    Default("prompt_cache", value=True, since=FIRST_V1, before=False),
)


def version_of(text: Fact[str]) -> Version | None:
    """The first two parts of a version such as 0.32.0+cpu; None where there is none."""
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})", text.value_or(""))
    return (int(found[1]), int(found[2])) if found else None


SINCE: dict[str, tuple[int, ...]] = {
    "--max-model-len": (0, 2, 0),
    "--quantization": (0, 2, 0),
    "--enforce-eager": (0, 2, 6),
    "--kv-cache-dtype": (0, 3, 0),
    "--enable-prefix-caching": (0, 4, 0),
    "--speculative-model": (0, 4, 1),
    "VLLM_ATTENTION_BACKEND": (0, 4, 2),
    "--no-enable-prefix-caching": (0, 6, 5),
    "--speculative-config": (0, 8, 2),
    "--attention-backend": (0, 13, 0),
}
"""The release that first had each flag, by vllm/engine/arg_utils.py of every release; the others are as old as it."""
UNTIL: dict[str, tuple[int, ...]] = {"--speculative-model": (0, 8, 3), "VLLM_ATTENTION_BACKEND": (*ATTENTION_FLAG, 0)}
"""The release that first lacked it again."""
CACHE_TYPES_SINCE: dict[str, tuple[int, ...]] = {
    "auto": (0, 3, 0), "fp8_e5m2": (0, 4, 3), "fp8": (0, 4, 1), "fp8_e4m3": (0, 4, 3), "fp8_inc": (0, 10, 0),
    "bfloat16": (0, 11, 0), "float16": (0, 18, 0), "int8_per_token_head": (0, 20, 0), "fp8_per_token_head": (0, 20, 0),
    "nvfp4": (0, 20, 0), "turboquant_k8v4": (0, 20, 0), "turboquant_4bit_nc": (0, 20, 0),
    "turboquant_k3v4_nc": (0, 20, 0), "turboquant_3bit_nc": (0, 20, 0), "int4_per_token_head": (0, 25, 0),
}  # fmt: skip


UNBOUND_SINCE = (0, 11, 1)
"""The release that first left threads unbound when told so; before, a list of CPUs is what sets their number."""


def full_version(text: Fact[str]) -> tuple[int, ...] | None:
    """All three parts of a version; None where there is none."""
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", text.value_or(""))
    return tuple(int(part or 0) for part in found.groups()) if found else None


def lacking(word: str, version: tuple[int, ...] | None) -> str:
    """Why a version does not have a flag or a variable; empty where it has it, or tells no version and is new."""
    since, until = SINCE.get(word, (0,)), UNTIL.get(word)
    if until and (version is None or version >= until):
        return f"vLLM has no {word} since {_dotted(until)}"
    if version is not None and version < since:
        return f"vLLM {_dotted(version)} has no {word}, which came with {_dotted(since)}"
    return ""


def thread_variables(count: int, version: tuple[int, ...] | None) -> dict[str, str]:
    """What makes it compute with so many threads: while it binds them itself, OMP_NUM_THREADS is written over."""
    if version is not None and version < UNBOUND_SINCE:
        return {"VLLM_CPU_OMP_THREADS_BIND": f"0-{count - 1}" if count > 1 else "0"}
    return {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": str(count)}


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def with_defaults(runtime: Runtime) -> Runtime:
    """The runtime with what its version does where nobody told it otherwise."""
    version = version_of(runtime.version)
    if version is None:
        return runtime
    changes: dict[str, Any] = {}
    for default in DEFAULTS:
        fact = getattr(runtime, default.fact)
        if isinstance(fact, Unknown) and fact.absence is Absence.NOT_FOUND:
            value = default.value if version >= default.since else default.before
            changes[default.fact] = estimated(value, f"default of vLLM {'.'.join(map(str, version))}")
    return msgspec.structs.replace(runtime, **changes)


def without_dead_variable(runtime: Runtime) -> Runtime:
    """The runtime without a choice of attention that its version does not read."""
    version = version_of(runtime.version)
    source = getattr(runtime.attention, "source", "")
    if version is None or version < ATTENTION_FLAG or not source.endswith("VLLM_ATTENTION_BACKEND"):
        return runtime
    why = not_supported(
        "VLLM_ATTENTION_BACKEND is set, but vLLM does not read it since 0.15", "use --attention-backend"
    )
    return msgspec.structs.replace(runtime, attention=why)
