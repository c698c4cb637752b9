"""Many changes at once for LM Studio: one load by `lms` or over HTTP, and clicks for what neither takes.

`lms load` has no word for flash attention, batch or the place of the cache, and the API none for layers; what is set
for a model in the app holds for every load.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.facts.shell_words import quoted
from unslow.facts.spelled import Spelled
from unslow.look.at_hand import NOTHING, AtHand
from unslow.look.runtimes.lm_studio.knobs import MODEL, share_of

_URL = "http://127.0.0.1:1234"
_UNNAMED = f"{MODEL} stands for the model: `lms ls` has its name"
_FIELDS = {
    Knob.CONTEXT_LENGTH: "context_length",
    Knob.FLASH_ATTENTION: "flash_attention",
    Knob.BATCH: "eval_batch_size",
    Knob.KV_OFFLOAD: "offload_kv_cache_to_gpu",
}
"""What loading over HTTP takes, since 0.4.0."""
_CLICKS = {
    Knob.FLASH_ATTENTION: "Flash Attention",
    Knob.BATCH: "Evaluation Batch Size",
    Knob.KV_OFFLOAD: "Offload KV Cache to GPU Memory",
    Knob.KV_CACHE_TYPE: "K Cache Quantization Type",
    Knob.VALUE_CACHE_TYPE: "V Cache Quantization Type",
    Knob.EXPERTS_ON_CPU: "Number of layers for which to force MoE weights onto CPU",
    Knob.THREADS: "CPU Thread Pool Size",
}
"""Switches of a model in the app."""


class _Wanted(NamedTuple):
    changes: Mapping[Knob, Setting]
    runtime: Runtime
    at_hand: AtHand


def spell_all(changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING) -> Spelled:
    """The clicks first, for they hold for the load that follows."""
    wanted = _Wanted({change.knob: change.value for change in changes}, runtime, at_hand)
    asked = list({change.knob: change for change in changes}.values())
    left = tuple((change, why) for change in asked if (why := _why_not(change, wanted)))
    have = [change for change in asked if change not in [missing for missing, _ in left]]
    if not have:
        return Spelled(left_out=left)
    model = _model(wanted)
    by_http = _by_http(have)
    clicks = () if by_http else tuple(line for change in have for line in _clicked(change, wanted))
    load = _http_load(have, model, runtime) if by_http else _lms_load(have, model, wanted)
    notes = (labelled(Place.HAND, _UNNAMED),) if model == MODEL else ()
    argv = () if by_http or notes else ("lms", "load", model, *_flags(have, wanted))
    return Spelled((*clicks, load, *notes), left, argv)


def _model(wanted: _Wanted) -> str:
    chosen = wanted.changes.get(Knob.MODEL_FILE)
    seen = str(chosen) if chosen in wanted.at_hand.listed else ""
    return seen or wanted.at_hand.model.name.value_or("") or MODEL


def _why_not(change: Change, wanted: _Wanted) -> str:
    """Why there is nothing to type or to click; empty where there is."""
    match change.knob:
        case Knob.MODEL_FILE:
            return "" if change.value in wanted.at_hand.listed else f"LM Studio does not list {change.value}"
        case Knob.QUANT:
            return "" if Knob.MODEL_FILE in wanted.changes else f"no model with {change.value} was named"
        case Knob.GPU_LAYERS:
            unknown = share_of(change.value, wanted.runtime.layers.value_or(0)) is None
            return "how many layers the model has is not known, and LM Studio takes a share" if unknown else ""
        case Knob.SPECULATIVE:
            return _why_no_draft(str(change.value or ""), wanted)
        case knob:
            return "" if knob in _FLAGS or knob in _FIELDS or knob in _CLICKS else "LM Studio has no setting for it"


def _why_no_draft(name: str, wanted: _Wanted) -> str:
    known = name in ("", "none", "draft-mtp") or name in wanted.at_hand.listed
    return "" if known else f"LM Studio does not list {name}"


def _by_http(changes: Sequence[Change]) -> bool:
    """Whether the API takes all of them, and `lms` would not."""
    knobs = {change.knob for change in changes} - {Knob.MODEL_FILE, Knob.QUANT}
    return knobs <= set(_FIELDS) and knobs != {Knob.CONTEXT_LENGTH} and bool(knobs)


def _http_load(changes: Sequence[Change], model: str, runtime: Runtime) -> str:
    fields = {_FIELDS[change.knob]: change.value for change in changes if change.knob in _FIELDS}
    body = json.dumps({"model": model, **fields})
    post = f"curl {runtime.url.value_or(_URL)}/api/v1/models/load -H 'Content-Type: application/json' -d {quoted(body)}"
    return f"lms unload {quoted(model)} && {post}"


def _lms_load(changes: Sequence[Change], model: str, wanted: _Wanted) -> str:
    words = " ".join(quoted(word) for word in (model, *_flags(changes, wanted)))
    loaded = wanted.runtime.state.value_or("") == "loaded"
    now = wanted.at_hand.model.name.value_or("") or MODEL
    return f"lms unload {quoted(now)} && lms load {words}" if loaded else f"lms load {words}"


def _flags(changes: Sequence[Change], wanted: _Wanted) -> list[str]:
    return [word for change in changes if change.knob in _FLAGS for word in _FLAGS[change.knob](change.value, wanted)]


def _clicked(change: Change, wanted: _Wanted) -> list[str]:
    if change.knob not in _CLICKS:
        return []
    switches = [_CLICKS[change.knob]]
    if change.knob is Knob.KV_CACHE_TYPE and Knob.VALUE_CACHE_TYPE not in wanted.changes:
        switches.append(_CLICKS[Knob.VALUE_CACHE_TYPE])
    value = {True: "on", False: "off"}.get(change.value) if isinstance(change.value, bool) else change.value
    return [labelled(Place.HAND, f"My Models > gear > Load: {switch} = {value}") for switch in switches]


def _number(flag: str) -> "Callable[[Setting, _Wanted], list[str]]":
    return lambda value, _wanted: [] if value is None else [flag, str(value)]


def _gpu(value: Setting, wanted: _Wanted) -> list[str]:
    return ["--gpu", str(share_of(value, wanted.runtime.layers.value_or(0)))]


def _draft(value: Setting, _wanted: _Wanted) -> list[str]:
    if not value or value == "none":
        return []
    simple = ["--speculative-draft-simple", "--speculative-draft-model", str(value)]
    return ["--speculative-draft-mtp"] if value == "draft-mtp" else simple


_FLAGS: Mapping[Knob, Callable[[Setting, _Wanted], list[str]]] = {
    Knob.GPU_LAYERS: _gpu,
    Knob.CONTEXT_LENGTH: _number("--context-length"),
    Knob.PARALLEL: _number("--parallel"),
    Knob.KEEP_ALIVE: _number("--ttl"),
    Knob.SPECULATIVE: _draft,
}
"""What `lms load` takes."""
