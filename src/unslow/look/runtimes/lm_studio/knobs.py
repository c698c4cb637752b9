"""How LM Studio spells each knob: a flag of `lms load`, a field of its API, or a switch in the app.

The model is loaded anew with each; MODEL stands for its name in `lms ps`.
"""

import json
import math
from collections.abc import Callable
from functools import partial

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime

MODEL = "MODEL"
_SPREAD = labelled(Place.HAND, "Settings > Hardware > Strategy: Split evenly, or Priority order")

Words = Callable[[Setting, Runtime], list[str]]


def spell(change: Change, runtime: Runtime) -> list[str]:
    """What to type or to click; [] where LM Studio has nothing for it."""
    words = _WORDS.get(change.knob)
    return words(change.value, runtime) if words else []


def _flag(flag: str, value: Setting, _runtime: Runtime) -> list[str]:
    return [_load(f"{flag} {'N' if value is None else value}")]


def _field(field: str, value: Setting, runtime: Runtime) -> list[str]:
    """Loading over HTTP takes settings that `lms load` has no flag for; since 0.4.0."""
    url = runtime.url.value_or("http://127.0.0.1:1234")
    body = json.dumps({"model": MODEL, field: True if value is None else value})
    return [f"lms unload {MODEL} && curl {url}/api/v1/models/load -H 'Content-Type: application/json' -d '{body}'"]


def _of_model(switch: str, value: Setting, _runtime: Runtime) -> list[str]:
    return [labelled(Place.HAND, f"My Models > gear > Load: {switch}{'' if value is None else f' = {value}'}")]


def _fixed(*words: str) -> Words:
    return lambda _value, _runtime: list(words)


def _load(flags: str) -> str:
    return f"lms unload {MODEL} && lms load {MODEL} {flags}"


def _layers(value: Setting, runtime: Runtime) -> list[str]:
    return [_load(f"--gpu {share_of(value, runtime.layers.value_or(0)) or 'SHARE, from 0 to 1'}")]


def share_of(value: Setting, layers: int) -> str | None:
    """Layers as the share that `--gpu` takes, rounded down so that they fit; all of them where no number is given.

    None of a number where nobody knows how many there are.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or 0 < layers <= value:
        return "max"
    if not value:
        return "off"
    return f"{math.floor(100 * value / layers) / 100:g}" if layers else None


def _quant(value: Setting, _runtime: Runtime) -> list[str]:
    if value:
        return [f"lms get {MODEL}@{str(value).casefold()}"]
    return [f"lms get {MODEL}", labelled(Place.HAND, "choose a smaller quant from its list")]


def _drafting(value: Setting, _runtime: Runtime) -> list[str]:
    if not value or value == "none":
        return [f"lms unload {MODEL} && lms load {MODEL}"]
    if value == "draft-mtp":
        return [_load("--speculative-draft-mtp")]
    return [_load(f"--speculative-draft-simple --speculative-draft-model {value}")]


_WORDS: dict[Knob, Words] = {
    Knob.CONTEXT_LENGTH: partial(_flag, "--context-length"),
    Knob.PARALLEL: partial(_flag, "--parallel"),
    Knob.KEEP_ALIVE: partial(_flag, "--ttl"),
    Knob.FLASH_ATTENTION: partial(_field, "flash_attention"),
    Knob.BATCH: partial(_field, "eval_batch_size"),
    Knob.KV_OFFLOAD: partial(_field, "offload_kv_cache_to_gpu"),
    Knob.KV_CACHE_TYPE: partial(_of_model, "K and V Cache Quantization Type"),
    Knob.EXPERTS_ON_CPU: partial(_of_model, "Number of layers for which to force MoE weights onto CPU"),
    Knob.THREADS: partial(_of_model, "CPU Thread Pool Size"),
    Knob.LOAD_MODE: partial(_of_model, "Try mmap"),
    Knob.FIT: _fixed(labelled(Place.HAND, "Settings > Hardware: Limit model offload to dedicated GPU memory")),
    Knob.DEVICE: _fixed(labelled(Place.HAND, "Settings > Hardware: switch the other GPUs off")),
    Knob.SPLIT_MODE: _fixed(_SPREAD),
    Knob.TENSOR_SPLIT: _fixed(_SPREAD),
    Knob.GPU_BACKEND: _fixed("lms runtime ls", "lms runtime get", "lms runtime select"),
    Knob.VERSION: _fixed("lms runtime update"),
    Knob.THINKING: _fixed(labelled(Place.HAND, "in the chat, switch Think off below the input")),
    Knob.GPU_LAYERS: _layers,
    Knob.QUANT: _quant,
    Knob.SPECULATIVE: _drafting,
}
