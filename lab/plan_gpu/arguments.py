"""A plan's settings in llama-server's words."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from unslow.facts.knob import Knob
from unslow.facts.values import MIB

_ALL = "99"


def _layers(value: Any) -> list[str]:
    return ["-ngl", _ALL if value in (-1, None) else str(value)]


def _switch(flag: str) -> Callable[[Any], list[str]]:
    return lambda value: [flag, value if isinstance(value, str) else "on" if value else "off"]


def _word(*flags: str) -> Callable[[Any], list[str]]:
    return lambda value: [word for flag in flags for word in (flag, str(value))]


def _unless(flag: str) -> Callable[[Any], list[str]]:
    """A flag that only turns something off."""
    return lambda value: [] if value else [flag]


_WORDS: dict[Knob, Callable[[Any], list[str]]] = {
    Knob.GPU_LAYERS: _layers,
    Knob.EXPERTS_ON_CPU: lambda value: ["-ncmoe", str(value)] if value else [],
    Knob.TENSOR_OVERRIDE: lambda value: ["-ot", str(value)] if value else [],
    Knob.CONTEXT_LENGTH: _word("-c"),
    Knob.KV_CACHE_TYPE: _word("-ctk", "-ctv"),
    Knob.VALUE_CACHE_TYPE: _word("-ctv"),
    Knob.THREADS: _word("-t"),
    Knob.FIT: _switch("-fit"),
    Knob.FIT_MARGIN: lambda value: ["-fitt", str(int(value) // MIB if int(value) >= MIB else value)],
    Knob.PARALLEL: _word("-np"),
    Knob.KV_OFFLOAD: _unless("-nkvo"),
    Knob.FLASH_ATTENTION: _switch("-fa"),
    Knob.BATCH: _word("-ub"),
    Knob.LOGICAL_BATCH: _word("-b"),
    Knob.OP_OFFLOAD: _unless("--no-op-offload"),
    Knob.SPLIT_MODE: _word("-sm"),
    Knob.TENSOR_SPLIT: _word("-ts"),
    Knob.MAIN_GPU: _word("-mg"),
    Knob.DEVICE: _word("-dev"),
    Knob.LOAD_MODE: _word("-lm"),
}
_NOT_OURS = {Knob.MODEL_FILE, Knob.QUANT}
"""The model is the same in every arm."""
_MEANS_DEFAULT = {knob for knob in Knob if knob is not Knob.GPU_LAYERS}
"""None leaves these as the server has them; of layers it means all."""


def arguments(settings: Iterable[Mapping[str, Any]]) -> list[str]:
    """The words of all settings, those of values alone last; LookupError of one that has no words here."""
    last = Knob.VALUE_CACHE_TYPE
    given = sorted(((Knob(one["knob"]), one["value"]) for one in settings), key=lambda pair: pair[0] is last)
    unknown = [knob.value for knob, _ in given if knob not in _WORDS and knob not in _NOT_OURS]
    if unknown:
        raise LookupError(f"no words for {', '.join(unknown)}")
    set_here = [(knob, value) for knob, value in given if knob in _WORDS]
    return [word for knob, value in set_here for word in _spelled(knob, value)]


def _spelled(knob: Knob, value: Any) -> list[str]:
    return [] if value is None and knob in _MEANS_DEFAULT else _WORDS[knob](value)
