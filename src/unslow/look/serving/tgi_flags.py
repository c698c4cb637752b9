"""How text-generation-inference is told things: its launcher's flags, each with a variable of the same name."""

from collections.abc import Mapping
from typing import Any

from unslow.facts.runtime import Runtime
from unslow.facts.values import Fact, Known, not_found, reported
from unslow.look.command_line import Setting
from unslow.look.serving.arguments import Flag, Flags
from unslow.look.serving.given import Given

PROGRAM = "TGI"


def _flag(name: str, *, secret: bool = False) -> Flag:
    return Flag((f"--{name}",), (name.replace("-", "_").upper(),), secret=secret)


FLAGS = Flags(
    {
        "host": Flag(("--hostname",)),
        "port": Flag(("--port", "-p"), ("PORT",)),
        "api_key": _flag("api-key", secret=True),
        "model": _flag("model-id"),
        "context": _flag("max-total-tokens"),
        "input": Flag(("--max-input-tokens", "--max-input-length"), ("MAX_INPUT_TOKENS", "MAX_INPUT_LENGTH")),
        "sequences": _flag("max-concurrent-requests"),
        "batched_tokens": _flag("max-batch-prefill-tokens"),
        "batch_total": _flag("max-batch-total-tokens"),
        "memory_fraction": _flag("cuda-memory-fraction"),
        "graphs": _flag("cuda-graphs"),
        "quantization": _flag("quantize"),
        "dtype": _flag("dtype"),
        "kv_type": _flag("kv-cache-dtype"),
        "shards": _flag("num-shard"),
        "draft_tokens": _flag("speculate"),
        "attention": Flag((), ("ATTENTION",)),
        "prefix_cache": Flag((), ("PREFIX_CACHING", "USE_PREFIX_CACHING")),
    }
)

SHARED = frozenset({"--hostname", "--port", "-p", "--api-key", "--dtype", "--kv-cache-dtype", "--model-id"})
"""Flags that other programs have too."""


def told(settings: Mapping[str, Setting], *, complete: bool) -> Runtime:
    """What the runtime was told; `complete` says that the environment could be read too, so that absence is a fact."""
    given = Given(PROGRAM, FLAGS, settings, complete)
    kv_type = given.text("kv_type")
    facts: dict[str, Any] = {
        "context_set": given.number("context"),
        "kv_type_k": kv_type,
        "kv_type_v": kv_type,
        "gpu_memory_fraction": given.share("memory_fraction", default=1.0),
        "max_sequences": given.number("sequences", default=128),
        "max_batched_tokens": given.number("batched_tokens"),
        "kv_capacity_tokens": given.number("batch_total"),
        "eager": _eager(given),
        "tensor_parallel": given.number("shards"),
        "quantization": given.text("quantization"),
        "weights_type": given.text("dtype"),
        "draft_tokens": given.number("draft_tokens"),
        "attention": _known("attention", settings),
        "prompt_cache": _cached(settings),
    }
    return Runtime(**facts)


def _eager(given: Given) -> Fact[bool]:
    """A list of batch sizes to capture graphs for; `0` is none."""
    sizes = given.text("graphs")
    return reported(sizes.value.strip() == "0", sizes.source) if isinstance(sizes, Known) else sizes


def _known(name: str, settings: Mapping[str, Setting]) -> Fact[Any]:
    setting = settings.get(name)
    return reported(setting.value, setting.source) if setting else not_found(f"no variable sets the {name}")


def _cached(settings: Mapping[str, Setting]) -> Fact[Any]:
    setting = settings.get("prefix_cache")
    if setting is None:
        return not_found("no variable sets the cache of prefixes")
    return reported(setting.value.lower() in ("1", "true"), setting.source)
