"""Many knobs as Ollama has them: parameters of a model, variables of the server, and what the model is made from."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.facts.units import MIB
from unslow.look.at_hand import NOTHING, AtHand
from unslow.look.paths import is_absolute
from unslow.look.runtimes.ollama.backend import visible_device
from unslow.look.runtimes.ollama.places import is_at_least, is_known_at_least

SINCE: Mapping[str, tuple[int, ...]] = {
    "OLLAMA_FLASH_ATTENTION": (0, 1, 39),
    "OLLAMA_NUM_PARALLEL": (0, 1, 34),
    "OLLAMA_MAX_LOADED_MODELS": (0, 1, 34),
    "OLLAMA_KEEP_ALIVE": (0, 1, 39),
    "OLLAMA_SCHED_SPREAD": (0, 1, 45),
    "OLLAMA_GPU_OVERHEAD": (0, 3, 10),
    "OLLAMA_KV_CACHE_TYPE": (0, 5, 0),
    "draft_num_predict": (0, 30),
    "LLAMA_ARG_": (0, 30),  # since then it runs llama-server, which inherits its environment
}
"""The release that first had each, by envconfig/config.go and api/types.go of every release."""
_CACHE_TYPES = ("f16", "q8_0", "q4_0")
_ALL_LAYERS = 999
"""More than any model has: less than nought leaves the number to Ollama."""


class Put(NamedTuple):
    """What a set of changes comes to."""

    parameters: Mapping[str, Setting] = {}
    variables: Mapping[str, str | None] = {}
    base: str = ""
    """What the model is made from; empty for the one at hand."""


class _Wanted(NamedTuple):
    """All changes by their knob, and where they go."""

    changes: Mapping[Knob, Setting]
    runtime: Runtime
    at_hand: AtHand


_Turn = Callable[[Setting, _Wanted], Put | str]


def put_together(
    changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING
) -> tuple[Put, tuple[tuple[Change, str], ...]]:
    """All changes as parameters and variables, and those that this version can't have, with the reason."""
    wanted = _Wanted({change.knob: change.value for change in changes}, runtime, at_hand)
    parameters: dict[str, Setting] = {}
    variables: dict[str, str | None] = {}
    base, left = "", []
    for change in {change.knob: change for change in changes}.values():
        turn = _TURNS.get(change.knob)
        put = turn(change.value, wanted) if turn else "Ollama has no setting for it"
        put = put if isinstance(put, str) else _too_new(put, runtime) or put
        if isinstance(put, str):
            left.append((change, put))
            continue
        parameters |= put.parameters
        variables |= put.variables
        base = base or put.base
    there = runtime.environment.value_or({})
    needed = {name: value for name, value in variables.items() if value is not None or name in there}
    return Put(parameters, needed, base), tuple(left)


def _too_new(put: Put, runtime: Runtime) -> str:
    """Why a version can't have something; empty where it can."""
    for name in (*put.parameters, *(name for name, value in put.variables.items() if value is not None)):
        since = next((version for start, version in SINCE.items() if name.startswith(start)), (0,))
        if not is_at_least(runtime, since):
            at = runtime.version.value_or("")
            return f"Ollama {at} does not read {name}, which {'.'.join(map(str, since))} is the first to do"
    return ""


def _parameter(name: str) -> _Turn:
    def turn(value: Setting, _wanted: _Wanted) -> Put | str:
        return Put({name: value}) if _is_number(value) else f"{value!r} is no value of {name}"

    return turn


def _variable(name: str) -> _Turn:
    def turn(value: Setting, _wanted: _Wanted) -> Put | str:
        return Put(variables={name: None if value is None else _word(value)})

    return turn


def _is_number(value: Setting) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _word(value: Setting) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _model_file(value: Setting, wanted: _Wanted) -> Put | str:
    """A file of this machine, or a name that Ollama lists: nobody has checked any other."""
    name = str(value or "")
    if name in wanted.at_hand.listed or (is_absolute(name) and name.lower().endswith(".gguf")):
        return Put(base=name)
    return f"{name} is no file of this machine and no model that Ollama lists"


def _keep_alive(value: Setting, _wanted: _Wanted) -> Put | str:
    if value is None:
        return "the client's requests set keep_alive, which goes before what the server has"
    return Put(variables={"OLLAMA_KEEP_ALIVE": str(value)})


def _quant(value: Setting, wanted: _Wanted) -> Put | str:
    return Put() if Knob.MODEL_FILE in wanted.changes else f"no model or file with {value} was named"


def _context(value: Setting, wanted: _Wanted) -> Put | str:
    """Ollama means the tokens of one request, and multiplies them by the requests that may run together."""
    slots = wanted.changes.get(Knob.PARALLEL) or wanted.runtime.slots.value_or(1)
    if not _is_number(value) or not value:
        return f"{value!r} is no number of tokens"
    return Put({"num_ctx": int(value) // max(1, int(slots))})


def _layers(value: Setting, wanted: _Wanted) -> Put | str:
    if value is None and wanted.changes.get(Knob.FIT):
        return Put({"num_gpu": -1})
    if value is None or value == -1:
        return Put({"num_gpu": _ALL_LAYERS})
    return _parameter("num_gpu")(value, wanted)


def _fit(value: Setting, wanted: _Wanted) -> Put | str:
    """On unless something stops it: a number of layers, or a variable of llama-server."""
    if value is False:
        return Put(variables={"LLAMA_ARG_FIT": "off"})
    layers: Mapping[str, Setting] = {} if Knob.GPU_LAYERS in wanted.changes else {"num_gpu": -1}
    return Put(layers, {"LLAMA_ARG_FIT": None})


def _margin(value: Setting, wanted: _Wanted) -> Put | str:
    """What stays free on each GPU: MiB for llama-server, bytes for Ollama's own reckoning before."""
    if not _is_number(value):
        return f"{value!r} is no number of bytes"
    size = int(value or 0)
    if is_at_least(wanted.runtime, SINCE["LLAMA_ARG_"]):
        return Put(variables={"LLAMA_ARG_FIT_TARGET": str(size // MIB if size >= MIB else size)})
    return Put(variables={"OLLAMA_GPU_OVERHEAD": str(size if size >= MIB else size * MIB)})


def _cache_type(value: Setting, wanted: _Wanted) -> Put | str:
    """One type for keys and values of all models; before 0.30 flash attention, which it needs, is off by itself."""
    if value not in _CACHE_TYPES:
        return f"Ollama has caches of {', '.join(_CACHE_TYPES)} only"
    off = wanted.changes.get(Knob.FLASH_ATTENTION, True) is False
    if value != "f16" and off:
        return "a quantised cache needs flash attention, which is to be off"
    on = value == "f16" or is_known_at_least(wanted.runtime, SINCE["LLAMA_ARG_"])
    return Put(variables={"OLLAMA_KV_CACHE_TYPE": str(value), **({} if on else {"OLLAMA_FLASH_ATTENTION": "1"})})


def _value_type(value: Setting, wanted: _Wanted) -> Put | str:
    keys = wanted.changes.get(Knob.KV_CACHE_TYPE, wanted.runtime.kv_type_k.value_or("f16"))
    return Put() if value == keys else "Ollama has one type for keys and values"


def _attention(value: Setting, _wanted: _Wanted) -> Put | str:
    return Put(variables={"OLLAMA_FLASH_ATTENTION": None if value is None else _word(bool(value))})


def _logical_batch(value: Setting, wanted: _Wanted) -> Put | str:
    micro = wanted.changes.get(Knob.BATCH, wanted.runtime.ubatch.value_or(0))
    return Put() if value == micro else "Ollama has one size for both batches"


def _split(value: Setting, wanted: _Wanted) -> Put | str:
    """Spread over all GPUs, or kept on one; other ways are llama-server's."""
    if value == "none":
        return Put({"main_gpu": wanted.changes.get(Knob.MAIN_GPU, wanted.runtime.main_gpu.value_or(0))})
    if value == "layer":
        return Put(variables={"OLLAMA_SCHED_SPREAD": "1"})
    return Put(variables={"LLAMA_ARG_SPLIT_MODE": None if value is None else str(value)})


def _load_mode(value: Setting, _wanted: _Wanted) -> Put | str:
    known = {"none": "false", "mmap": "true"}
    return Put({"use_mmap": known[str(value)]}) if value in known else f"Ollama has no way to load by {value}"


def _kv_offload(value: Setting, _wanted: _Wanted) -> Put | str:
    return Put(variables={"LLAMA_ARG_KV_OFFLOAD": "0" if value is False else None})


def _drafting(value: Setting, _wanted: _Wanted) -> Put | str:
    """A number of tokens, for models that bring their draft along."""
    if not value or value == "none":
        return Put({"draft_num_predict": 0})
    return Put({"draft_num_predict": value}) if _is_number(value) else "Ollama takes no draft model of its own"


def _device(value: Setting, wanted: _Wanted) -> Put | str:
    if value is None:
        return "which variable hides the device is not known"
    chosen = visible_device(value, wanted.runtime)
    return Put(variables=dict([chosen])) if chosen else f"{value!r} names no device"


_TURNS: Mapping[Knob, _Turn] = {
    Knob.MODEL_FILE: _model_file,
    Knob.QUANT: _quant,
    Knob.CONTEXT_LENGTH: _context,
    Knob.GPU_LAYERS: _layers,
    Knob.FIT: _fit,
    Knob.FIT_MARGIN: _margin,
    Knob.KV_CACHE_TYPE: _cache_type,
    Knob.VALUE_CACHE_TYPE: _value_type,
    Knob.FLASH_ATTENTION: _attention,
    Knob.PARALLEL: _variable("OLLAMA_NUM_PARALLEL"),
    Knob.LOADED_MODELS: _variable("OLLAMA_MAX_LOADED_MODELS"),
    Knob.KEEP_ALIVE: _keep_alive,
    Knob.BATCH: _parameter("num_batch"),
    Knob.LOGICAL_BATCH: _logical_batch,
    Knob.THREADS: _parameter("num_thread"),
    Knob.SAMPLER: _parameter("top_k"),
    Knob.MAIN_GPU: _parameter("main_gpu"),
    Knob.SPLIT_MODE: _split,
    Knob.TENSOR_SPLIT: _variable("LLAMA_ARG_TENSOR_SPLIT"),
    Knob.TENSOR_OVERRIDE: _variable("LLAMA_ARG_OVERRIDE_TENSOR"),
    Knob.EXPERTS_ON_CPU: _variable("LLAMA_ARG_N_CPU_MOE"),
    Knob.KV_OFFLOAD: _kv_offload,
    Knob.NUMA: _variable("LLAMA_ARG_NUMA"),
    Knob.LOAD_MODE: _load_mode,
    Knob.SPECULATIVE: _drafting,
    Knob.DEVICE: _device,
}
