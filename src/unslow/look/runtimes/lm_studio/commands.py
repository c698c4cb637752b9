"""The commands of LM Studio: one load by `lms` or over HTTP, and clicks for what neither takes.

`lms load` has no word for flash attention, batch or the place of the cache, and the API none for layers; what is set
for a model in the app holds for every load. The model is loaded anew with each.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence

from unslow.facts.commands import Commands, by_hand, shell_quoted
from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.look import command_writer as writer
from unslow.look.command_writer import NOTHING_AT_HAND, AtHand, ChangeRequest

MODEL = "MODEL"
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
    Knob.LOAD_MODE: "Try mmap",
}
"""Switches of a model in the app."""
_LOAD_MODES = {"mmap": True, "none": False}
_SPREAD = by_hand("Settings > Hardware > Strategy: Split evenly, or Priority order")
_ADVICE: Mapping[Knob, Sequence[str]] = {
    Knob.FIT: [by_hand("Settings > Hardware: Limit model offload to dedicated GPU memory")],
    Knob.DEVICE: [by_hand("Settings > Hardware: switch the other GPUs off")],
    Knob.SPLIT_MODE: [_SPREAD],
    Knob.TENSOR_SPLIT: [_SPREAD],
    Knob.GPU_BACKEND: ["lms runtime ls", "lms runtime get", "lms runtime select"],
    Knob.VERSION: ["lms runtime update"],
    Knob.THINKING: [by_hand("in the chat, switch Think off below the input")],
}


def commands_for(changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING_AT_HAND) -> Commands:
    """The clicks first, for they hold for the load that follows."""
    asked = list({change.knob: change for change in changes}.values())  # the last word on a knob counts
    wanted = ChangeRequest({change.knob: change.value for change in asked}, runtime, at_hand)
    reasons = [(change, _why_not(change, wanted), _missing(change, wanted)) for change in asked]
    left = [(change, refused or missing) for change, refused, missing in reasons if refused or missing]
    have = [change for change, refused, missing in reasons if not refused and not missing]
    short = tuple(_load_line([change], wanted) for change, refused, missing in reasons if missing and not refused)
    advice = tuple(line for change in asked for line in _advice(change, wanted))
    model = _model(wanted)
    clicks = [line for change in have if not _by_http(have) for line in _app_steps(change, wanted)]
    load = (*clicks, _load_line(have, wanted)) if have else ()
    lines = (*(load or short), *advice)
    notes = (by_hand(_UNNAMED),) if model == MODEL and any(MODEL in line.split() for line in lines) else ()
    argv = ("lms", "load", model, *_flags(have, wanted)) if have and not _by_http(have) and model != MODEL else ()
    return Commands(short if load else (), (*lines, *notes), tuple(left), argv)


def _load_line(changes: Sequence[Change], wanted: ChangeRequest) -> str:
    model, now = _model(wanted), wanted.at_hand.model.name.value_or("") or MODEL
    loaded = wanted.runtime.state.value_or("" if wanted.at_hand.anew else "loaded") == "loaded"  # as what is seen is
    unload = f"lms unload {shell_quoted(now)} && " if loaded else ""
    if _by_http(changes):
        fields = {_FIELDS[change.knob]: change.value for change in changes if change.knob in _FIELDS}
        url = wanted.runtime.process.url.value_or("http://127.0.0.1:1234")
        body = shell_quoted(json.dumps({"model": model, **fields}))
        return f"{unload}curl {url}/api/v1/models/load -H 'Content-Type: application/json' -d {body}"
    return f"{unload}lms load {' '.join(shell_quoted(word) for word in (model, *_flags(changes, wanted)))}"


def _model(wanted: ChangeRequest) -> str:
    chosen = wanted.changes.get(Knob.MODEL_FILE)
    seen = str(chosen) if chosen in wanted.at_hand.listed else ""
    return seen or wanted.at_hand.model.name.value_or("") or MODEL


def _why_not(change: Change, wanted: ChangeRequest) -> str:
    match change.knob:
        case Knob.MODEL_FILE:
            return "" if change.value in wanted.at_hand.listed else f"LM Studio does not list {change.value}"
        case Knob.QUANT:
            kind = change.value or "a smaller quant"
            return "" if Knob.MODEL_FILE in wanted.changes else f"no model with {kind} is known"
        case Knob.SPECULATIVE:
            name = str(change.value or "none")
            known = name in ("none", "draft-mtp", writer.DRAFT_PLACE) or name in wanted.at_hand.listed
            return "" if known else f"LM Studio does not list {name}"
        case Knob.LOAD_MODE:
            known = change.value is None or change.value in _LOAD_MODES
            return "" if known else f"LM Studio has no load mode {change.value}"
        case knob:
            return "" if knob in _FLAGS or knob in _CLICKS else "LM Studio has no setting for it"


def _missing(change: Change, wanted: ChangeRequest) -> str:
    match change.knob:
        case Knob.CONTEXT_LENGTH | Knob.PARALLEL | Knob.KEEP_ALIVE:
            return writer.NO_NUMBER if change.value is None else ""
        case Knob.GPU_LAYERS:
            unknown = share_of(change.value, wanted.runtime.placement.layers.value_or(0)) is None
            return "the model's layer count is unknown, and LM Studio takes a share" if unknown else ""
        case Knob.SPECULATIVE:
            return writer.missing_draft(change.value)
    return ""


def _advice(change: Change, wanted: ChangeRequest) -> Sequence[str]:
    if change.knob is not Knob.QUANT:
        return _ADVICE.get(change.knob, ())
    if Knob.MODEL_FILE in wanted.changes:
        return ()
    if change.value:
        named = f"{_model(wanted).partition('@')[0]}@{str(change.value).casefold()}"
        return [f"lms get {shell_quoted(named)}"]
    return [f"lms get {shell_quoted(_model(wanted))}", by_hand("choose a smaller quant from its list")]


def _by_http(changes: Sequence[Change]) -> bool:
    """Whether the API takes all of them, and `lms` would not."""
    turned = [change for change in changes if change.knob not in (Knob.MODEL_FILE, Knob.QUANT)]
    fields = all(change.knob in _FIELDS and change.value is not None for change in turned)
    return bool(turned) and fields and any(change.knob not in _FLAGS for change in turned)


def _flags(changes: Sequence[Change], wanted: ChangeRequest) -> list[str]:
    return [word for change in changes if change.knob in _FLAGS for word in _FLAGS[change.knob](change.value, wanted)]


def _app_steps(change: Change, wanted: ChangeRequest) -> list[str]:
    if change.knob not in _CLICKS:
        return []
    switches = [_CLICKS[change.knob]]
    if change.knob is Knob.KV_CACHE_TYPE and Knob.VALUE_CACHE_TYPE not in wanted.changes:
        switches.append(_CLICKS[Knob.VALUE_CACHE_TYPE])
    value = _LOAD_MODES.get(str(change.value)) if change.knob is Knob.LOAD_MODE else change.value
    word = "" if value is None else f" = {value}" if not isinstance(value, bool) else " = on" if value else " = off"
    return [by_hand(f"My Models > gear > Load: {switch}{word}") for switch in switches]


def share_of(value: Setting, layers: int) -> str | None:
    """Layers as the share that `--gpu` takes, rounded down so that they fit; all of them where no number is given.

    None of a number where the count is unknown.
    """
    if not writer.is_integer(value) or value < 0 or 0 < layers <= value:
        return "max"
    if not value:
        return "off"
    return f"{math.floor(100 * value / layers) / 100:g}" if layers else None


def _number(flag: str) -> "Callable[[Setting, ChangeRequest], list[str]]":
    return lambda value, _wanted: [flag, writer.PLACE if value is None else str(value)]


_FLAGS: Mapping[Knob, Callable[[Setting, ChangeRequest], list[str]]] = {
    Knob.GPU_LAYERS: lambda value, wanted: [
        "--gpu",
        share_of(value, wanted.runtime.placement.layers.value_or(0)) or "SHARE",
    ],
    Knob.CONTEXT_LENGTH: _number("--context-length"),
    Knob.PARALLEL: _number("--parallel"),
    Knob.KEEP_ALIVE: _number("--ttl"),
    Knob.SPECULATIVE: lambda value, _wanted: (
        []
        if not value or value == "none"
        else ["--speculative-draft-mtp"]
        if value == "draft-mtp"
        else ["--speculative-draft-simple", "--speculative-draft-model", str(value)]
    ),
}
"""What `lms load` takes."""
