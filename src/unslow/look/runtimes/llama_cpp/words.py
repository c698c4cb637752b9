"""The words of each knob where many are turned at once: what goes from the command line, and what comes."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.facts.units import MIB
from unslow.facts.values import Known
from unslow.look.llama_server.options import Options


class Words(NamedTuple):
    """Settings that a knob replaces, the words that it puts in, and variables that it needs or must not see."""

    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = {}


class Wanted(NamedTuple):
    """All changes by their knob, what the command line has already, and the build they are for."""

    changes: Mapping[Knob, Setting]
    given: Mapping[str, str]
    options: Options
    runtime: Runtime = Runtime()


Answer = Words | str
"""Words, or the reason why there are none."""
_Turn = Callable[[Setting, Wanted], Answer]
_MOST_LAYERS = "999"
"""More than any model has, where a build has no word for all of them."""
_LARGEST = 2**31 - 1  # llama.cpp reads numbers as `int`
_USUAL_BATCH = 2048  # what every build takes where nobody says how large a batch is
_QUANTISED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
_CACHE_TYPES = ("f32", "f16", "bf16", *_QUANTISED)
_SPLITS = ("none", "layer", "row", "tensor")
_SWITCHED_OFF = ("off", "0", "false", "disabled")
_DRAFTED = "draft-simple"
_DRAFT_FILE = "DRAFT_MODEL"
"""What stands for a draft model that the user must choose."""
"""How llama-server calls guesses by a model of their own."""
_OLD_LOAD_MODES = {
    "mmap": (), "auto": (), "none": ("--no-mmap",), "mlock": ("--no-mmap", "--mlock"), "mmap+mlock": ("--mlock",),
    "dio": ("-dio",),
}  # fmt: skip
_WRONG = "{value!r} is no value of it"


def words_of(change: Change, wanted: Wanted) -> Answer | None:
    """The words of one change among all; None for a knob that is none of a command line."""
    turn = _TURNS.get(change.knob)
    return turn(change.value, wanted) if turn else None


def _whole(value: Setting) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(name: str, flag: str, least: int = 1) -> _Turn:
    """A flag with a number; None leaves it to llama.cpp."""

    def turn(value: Setting, wanted: Wanted) -> Answer:
        if value is None:
            return Words((name,))
        if not _whole(value) or not least <= int(value) <= _LARGEST:
            return _WRONG.format(value=value)
        return Words((name,), (flag, str(value))) if wanted.options.has(flag) else wanted.options.without(flag)

    return turn


def _text(name: str, flag: str) -> _Turn:
    """A flag with a word of its own; None leaves it to llama.cpp."""

    def turn(value: Setting, wanted: Wanted) -> Answer:
        if value is None:
            return Words((name,))
        return Words((name,), (flag, str(value))) if wanted.options.has(flag) else wanted.options.without(flag)

    return turn


def _off_by(name: str, flag: str) -> _Turn:
    """A switch that is on by itself."""

    def turn(value: Setting, wanted: Wanted) -> Answer:
        if value is not False:
            return Words((name,))
        return Words((name,), (flag,)) if wanted.options.has(flag) else wanted.options.without(flag)

    return turn


def _on_by(name: str, flag: str) -> _Turn:
    """A switch that is off by itself."""

    def turn(value: Setting, wanted: Wanted) -> Answer:
        if not value:
            return Words((name,))
        return Words((name,), (flag,)) if wanted.options.has(flag) else wanted.options.without(flag)

    return turn


def _model_file(value: Setting, _wanted: Wanted) -> Answer:
    if not isinstance(value, str) or not value.lower().endswith(".gguf"):
        return f"{value} is not the path of a GGUF file"
    return Words(("model", "repository", "repository_file", "model_url"), ("-m", value))


def _quant(value: Setting, wanted: Wanted) -> Answer:
    """A quant is another file."""
    return Words() if Knob.MODEL_FILE in wanted.changes else f"no file of this model as {value} was named"


def _layers(value: Setting, wanted: Wanted) -> Answer:
    """A number of layers, or all by -1; None leaves it to the fit, where the build has one: others would take none."""
    if value is None and (wanted.changes.get(Knob.FIT) or wanted.options.fits_by_itself):
        return Words(("gpu_layers",))
    if value is None or value == -1:
        named = value == -1 and wanted.options.takes("-ngl", "all")  # which a build of unknown age may not
        return Words(("gpu_layers",), ("-ngl", "all" if named else _MOST_LAYERS))
    return _number("gpu_layers", "-ngl", least=0)(value, wanted)


def _fit(value: Setting, wanted: Wanted) -> Answer:
    """It places weights only where nothing else does: what stands in its way goes, unless it is asked for too."""
    if not wanted.options.has("--fit"):
        return Words() if value is False else wanted.options.without("--fit")
    asked = {Knob.GPU_LAYERS: "gpu_layers", Knob.TENSOR_SPLIT: "tensor_split", Knob.TENSOR_OVERRIDE: "override"}
    placed = [name for knob, name in asked.items() if knob not in wanted.changes]
    experts = [] if Knob.EXPERTS_ON_CPU in wanted.changes else ["n_cpu_moe", "cpu_moe", "n_cpu_ffn"]
    away = [] if value is False else [*placed, *experts]
    if value and Knob.CONTEXT_LENGTH not in wanted.changes:
        away.append("context")  # an explicit one is never made shorter
    return Words(("fit", *away), ("--fit", "off") if value is False else ())  # it is on unless something stops it


def _margin(value: Setting, wanted: Wanted) -> Answer:
    """Bytes, which llama.cpp counts in MiB; no margin is of a few bytes, so that a small number is one of MiB."""
    if _whole(value) and int(value or 0) >= MIB:
        value = int(value or 0) // MIB
    return _number("fit_margin", "-fitt", least=0)(value, wanted)


def _overrides(value: Setting, wanted: Wanted) -> Answer:
    if not value:
        return Words(("override",))
    if not isinstance(value, str) or not all(part.rpartition("=")[0] for part in value.split(",")):
        return f"{value!r} is not of the form PATTERN=DEVICE"
    return _text("override", "-ot")(value, wanted)


def _experts(value: Setting, wanted: Wanted) -> Answer:
    """The experts of the first layers; builds that lack the flag take the names of their tensors."""
    names = ("n_cpu_moe", "cpu_moe", *(() if Knob.TENSOR_OVERRIDE in wanted.changes else ("override",)))
    if not value:
        return Words(names)
    if not _whole(value) or not 0 < int(value) <= int(_MOST_LAYERS):
        return _WRONG.format(value=value)
    if wanted.options.has("-ncmoe"):
        return Words(names, ("-ncmoe", str(value)))
    layers = "|".join(str(layer) for layer in range(int(value)))
    pattern = rf"blk\.({layers})\.ffn_(up|down|gate)_exps=CPU"
    return Words(names, ("-ot", pattern)) if wanted.options.has("-ot") else wanted.options.without("-ncmoe")


def _slots(value: Setting, wanted: Wanted) -> Answer:
    """Fewer slots with caches of their own would only share out the whole: a context that is set shrinks with them."""
    said, runtime = _number("slots", "-np")(value, wanted), wanted.runtime
    slots, total = runtime.slots.value_or(0), runtime.context_length.value_or(0)
    apart = isinstance(runtime.kv_unified, Known) and not runtime.kv_unified.value
    is_set = "context" in wanted.given and Knob.CONTEXT_LENGTH not in wanted.changes
    if isinstance(said, str) or not (_whole(value) and 0 < int(value or 0) < slots and apart and is_set and total):
        return said
    return Words(("slots", "context"), (*said.words, "-c", str(total // slots * int(value or 0))))


def _cache_type(value: Setting, wanted: Wanted) -> Answer:
    """Keys and values, unless values have a change of their own."""
    values = Knob.VALUE_CACHE_TYPE not in wanted.changes
    names = ("kv_type_k", "kv_type_v") if values else ("kv_type_k",)
    if value is None:
        return Words(names)
    if value not in _CACHE_TYPES:
        return _WRONG.format(value=value)
    keys = ("-ctk", str(value))
    return _with_attention(names, (*keys, "-ctv", str(value)), wanted) if values else Words(names, keys)


def _value_type(value: Setting, wanted: Wanted) -> Answer:
    if value is None:
        return Words(("kv_type_v",))
    if value not in _CACHE_TYPES:
        return _WRONG.format(value=value)
    return _with_attention(("kv_type_v",), ("-ctv", str(value)), wanted)


def _with_attention(names: tuple[str, ...], words: tuple[str, ...], wanted: Wanted) -> Answer:
    """Quantised values need flash attention: asked for where it is off, or where the build has it off by itself."""
    if words[-1] not in _QUANTISED or wanted.changes.get(Knob.FLASH_ATTENTION):
        return Words(names, words)
    if Knob.FLASH_ATTENTION in wanted.changes and wanted.changes[Knob.FLASH_ATTENTION] is False:
        return "a quantised cache of values needs flash attention, which is to be off"
    given = wanted.given.get("flash_attention", "")
    automatic = wanted.options.takes("-fa", "on")
    if given not in _SWITCHED_OFF and (automatic or given):
        return Words(names, words)
    return Words((*names, "flash_attention"), (*words, "-fa", *(("on",) if automatic else ())))


def _attention(value: Setting, wanted: Wanted) -> Answer:
    """Since b6325 with a value; before, the flag alone, and nothing for off."""
    if value is None:
        return Words(("flash_attention",))
    if wanted.options.takes("-fa", "on"):
        return Words(("flash_attention",), ("-fa", "on" if value else "off"))
    return Words(("flash_attention",), ("-fa",) if value else ())


def _batch(value: Setting, wanted: Wanted) -> Answer:
    """No micro-batch is larger than its batch, which grows with it."""
    if value is None or not _whole(value):
        return _number("ubatch", "-ub")(value, wanted)
    logical = wanted.changes.get(Knob.LOGICAL_BATCH) or _given_batch(wanted)
    grown = Knob.LOGICAL_BATCH not in wanted.changes and int(value) > int(logical)
    more = Words(("ubatch", "batch"), ("-ub", str(value), "-b", str(value)))
    return more if grown else _number("ubatch", "-ub")(value, wanted)


def _given_batch(wanted: Wanted) -> int:
    given = wanted.given.get("batch", "")
    return int(given) if given.isdecimal() else _USUAL_BATCH


def _logical_batch(value: Setting, wanted: Wanted) -> Answer:
    micro = wanted.changes.get(Knob.BATCH)
    most = max(int(value), int(micro)) if _whole(value) and _whole(micro) and value and micro else value
    return _number("batch", "-b")(most, wanted)


def _split(value: Setting, wanted: Wanted) -> Answer:
    if value is None:
        return Words(("split_mode",))
    if value not in _SPLITS:
        return _WRONG.format(value=value)
    word = str(value)
    return (
        Words(("split_mode",), ("-sm", word))
        if wanted.options.takes("-sm", word)
        else wanted.options.without("-sm", word)
    )


def _load_mode(value: Setting, wanted: Wanted) -> Answer:
    names = ("load_mode", "mlock", "mmap", "direct_io")
    if value is None:
        return Words(names)
    if value not in _OLD_LOAD_MODES:
        return _WRONG.format(value=value)
    if wanted.options.has("-lm"):
        taken = wanted.options.takes("-lm", str(value))
        return Words(names, ("-lm", str(value))) if taken else wanted.options.without("-lm", str(value))
    words = _OLD_LOAD_MODES[str(value)]
    lacking = next((word for word in words if not wanted.options.has(word)), "")
    return wanted.options.without(lacking) if lacking else Words(names, words)


def _drafting(value: Setting, wanted: Wanted) -> Answer:
    """A draft model by its file, or a way of drafting without one."""
    names = ("draft_model", "draft_repository", "draft_type", "draft_tokens")
    if not value or value == "none":
        return Words(names)
    word = str(value)
    if word == _DRAFT_FILE or word.lower().endswith(".gguf"):
        typed = wanted.options.takes("--spec-type", _DRAFTED)  # without it, such a build loads the draft for nothing
        return Words(names, ("-md", word, *(("--spec-type", _DRAFTED) if typed else ())))
    taken = wanted.options.takes("--spec-type", word)
    return Words(names, ("--spec-type", word)) if taken else wanted.options.without("--spec-type", word)


def _prompt_cache(value: Setting, wanted: Wanted) -> Answer:
    if value == "swa-full":
        there = wanted.options.has("--swa-full")
        return Words(("swa_full",), ("--swa-full",)) if there else wanted.options.without("--swa-full")
    return _off_by("prompt_cache", "--no-cache-prompt")(value, wanted)


def _graphs(value: Setting, _wanted: Wanted) -> Answer:
    return Words(environment={"GGML_CUDA_DISABLE_GRAPHS": "1" if value is False else None})


_TURNS: Mapping[Knob, _Turn] = {
    Knob.MODEL_FILE: _model_file,
    Knob.QUANT: _quant,
    Knob.FIT: _fit,
    Knob.FIT_MARGIN: _margin,
    Knob.GPU_LAYERS: _layers,
    Knob.TENSOR_OVERRIDE: _overrides,
    Knob.EXPERTS_ON_CPU: _experts,
    Knob.DEVICE: _text("device", "-dev"),
    Knob.MAIN_GPU: _number("main_gpu", "-mg", least=0),
    Knob.SPLIT_MODE: _split,
    Knob.TENSOR_SPLIT: _text("tensor_split", "-ts"),
    Knob.CONTEXT_LENGTH: _number("context", "-c", least=0),
    Knob.PARALLEL: _slots,
    Knob.KV_UNIFIED: _on_by("kv_unified", "-kvu"),
    Knob.KV_CACHE_TYPE: _cache_type,
    Knob.VALUE_CACHE_TYPE: _value_type,
    Knob.KV_OFFLOAD: _off_by("kv_offload", "-nkvo"),
    Knob.FLASH_ATTENTION: _attention,
    Knob.BATCH: _batch,
    Knob.LOGICAL_BATCH: _logical_batch,
    Knob.OP_OFFLOAD: _off_by("op_offload", "--no-op-offload"),
    Knob.THREADS: _number("threads", "-t"),
    Knob.NUMA: _text("numa", "--numa"),
    Knob.LOAD_MODE: _load_mode,
    Knob.SPECULATIVE: _drafting,
    Knob.PROMPT_CACHE: _prompt_cache,
    Knob.SAMPLER: _number("top_k", "--top-k", least=0),
    Knob.GRAPHS: _graphs,
}
"""In the order in which their words stand: overrides by name come before the experts, and so win."""
ORDER = {knob: place for place, knob in enumerate(_TURNS)}
