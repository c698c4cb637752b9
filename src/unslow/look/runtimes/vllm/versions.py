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
