"""Settings of an engine as Python prints them: `key=value` of a config, `'key': value` of a dictionary, `LLM(...)`."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from unslow.facts.units import GIB
from unslow.facts.values import reported
from unslow.look.logs.serving_state import MOST_BYTES, MOST_COUNT, Reading

_PAIR = re.compile(
    r"""(?<![\w.])['"]?([a-z][a-z_]{2,40})['"]?\s?[=:]\s?"""
    r"""(?:'([^']{0,500})'|"([^"]{0,500})"|([^\s,(){}]{1,200}))"""
)
_NOTHING = ("", "None", "auto", "null")


class Key(NamedTuple):
    """Which fact a setting is, and how its text becomes a value; None where the text is none."""

    fact: str
    value: Callable[[str], Any]


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= len(str(MOST_COUNT)) and int(text) < MOST_COUNT else None


def _share(text: str) -> float | None:
    return float(text) if re.fullmatch(r"0?\.\d{1,9}|1(?:\.0{1,9})?", text) else None


def _truth(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _untruth(text: str) -> bool | None:
    return {"true": False, "false": True}.get(text.lower())


def _gibibytes(text: str) -> int | None:
    return min(round(float(text) * GIB), MOST_BYTES) if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text) else None


def _type(text: str) -> str:
    return text.removeprefix("torch.")


_LENGTH, _SEQUENCES = Key("context_length", _count), Key("max_sequences", _count)
_TENSOR, _PIPELINE = Key("tensor_parallel", _count), Key("pipeline_parallel", _count)
_CHUNK, _FRACTION = Key("max_batched_tokens", _count), Key("gpu_memory_fraction", _share)
_EAGER, _DRAFT = Key("eager", _truth), Key("draft_tokens", _count)

KEYS: dict[str, tuple[Key, ...]] = {
    "quantization": (Key("quantization", str),),
    "dtype": (Key("weights_type", _type),),
    "kv_cache_dtype": (Key("kv_type_k", _type), Key("kv_type_v", _type)),
    "cpu_offload_gb": (Key("cpu_offload_bytes", _gibibytes),),
    "attention_backend": (Key("attention", str),),
    # vLLM
    "max_seq_len": (_LENGTH,),
    "max_model_len": (_LENGTH,),
    "tensor_parallel_size": (_TENSOR,),
    "pipeline_parallel_size": (_PIPELINE,),
    "enforce_eager": (_EAGER,),
    "enable_prefix_caching": (Key("prompt_cache", _truth),),
    "gpu_memory_utilization": (_FRACTION,),
    "num_gpu_blocks_override": (Key("kv_blocks_set", _count),),
    "max_num_seqs": (_SEQUENCES,),
    "max_num_batched_tokens": (_CHUNK,),
    "device_config": (Key("device_used", str),),
    "speculative_model": (Key("speculative", str),),
    "num_speculative_tokens": (_DRAFT,),
    # SGLang
    "context_length": (_LENGTH,),
    "tp_size": (_TENSOR,),
    "pp_size": (_PIPELINE,),
    "disable_cuda_graph": (_EAGER,),
    "disable_radix_cache": (Key("prompt_cache", _untruth),),
    "mem_fraction_static": (_FRACTION,),
    "max_running_requests": (_SEQUENCES,),
    "chunked_prefill_size": (_CHUNK,),
    "speculative_algorithm": (Key("speculative", str),),
    "speculative_num_draft_tokens": (_DRAFT,),
}
_MODEL_KEYS = ("model", "model_path", "model_tag", "model_id")


def note_settings(reading: Reading, text: str, where: str) -> None:
    """Every setting of the text as a fact; the first of a name counts, since later ones are nested."""
    pairs: dict[str, str] = {}
    for name, single, double, bare in _PAIR.findall(text):
        pairs.setdefault(name, single or double or bare)
    for name, written in pairs.items():
        if written in _NOTHING:
            continue
        if name in _MODEL_KEYS:
            note_model(reading, written, where)
        for key in KEYS.get(name, ()):
            if (value := key.value(written)) is not None:
                reading.note(key.fact, value, where)


def note_model(reading: Reading, name: str, where: str) -> None:
    """A model by its folder, or by its name in a hub."""
    folder = name.startswith("/")
    reading.model.setdefault("name", reported(name.rstrip("/").rpartition("/")[2] if folder else name, where))
    if folder:
        reading.model.setdefault("path", reported(name, where))
