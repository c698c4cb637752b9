"""The commands of KoboldCpp: every knob as flags, and what is none as advice."""

from collections.abc import Mapping, Sequence

from unslow.facts.commands import Commands, Place, labelled_line
from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.look.command_writer import (
    DRAFT_PLACE,
    NO_DRAFT,
    NO_NUMBER,
    NOTHING_AT_HAND,
    PLACE,
    Advice,
    Answer,
    AtHand,
    Program,
    Turn,
    Wanted,
    Words,
    restart_lines,
    write_commands,
)
from unslow.look.runtimes.koboldcpp.flags import FLAGS, spelled_flags, without_secrets

_ALL_LAYERS = "999"
"""More than any model has: less than nought lets KoboldCpp choose."""
_CACHE_TYPES = {"f16": "0", "q8_0": "1", "q4_0": "2"}  # numbers are understood by every version
_LOAD_MODES = {"none": (), "mmap": ("--usemmap",), "mlock": ("--usemlock",), "mmap+mlock": ("--usemmap", "--usemlock")}


def commands_for(changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING_AT_HAND) -> Commands:
    """One command line with all changes, and the way to start it by whoever starts it now."""
    return write_commands(_PROGRAM, changes, runtime, at_hand)


def _value_of(*names: str) -> Turn:
    """A flag with a value, that of the first of these settings; None leaves all of them to KoboldCpp."""

    def turn(value: Setting, _wanted: Wanted) -> Answer:
        if isinstance(value, bool):
            return f"{value!r} is no value of it"
        return Words(names, () if value is None else (FLAGS[names[0]].spellings[0], str(value)))

    return turn


def _switched_off_by(name: str) -> Turn:
    return lambda value, _wanted: Words((name,), (FLAGS[name].spellings[0],) if value is False else ())


def _model_file(value: Setting, _wanted: Wanted) -> Answer:
    is_gguf = str(value).lower().endswith(".gguf")
    return Words(("model_param",), ("--model", str(value))) if is_gguf else f"{value} is not a GGUF file"


def _quant(value: Setting, wanted: Wanted) -> Answer:
    if Knob.MODEL_FILE in wanted.changes:
        return Words()
    kind = value or "a smaller quant"
    by_hand = labelled_line(Place.HAND, f"give `--model` the file of this model as {kind}")
    return Advice([by_hand], f"no file of this model as {kind} was named")


def _layers(value: Setting, _wanted: Wanted) -> Answer:
    return _value_of("gpulayers")(_ALL_LAYERS if value == -1 else value, _wanted)


def _fit(value: Setting, _wanted: Wanted) -> Answer:
    return Words(("gpulayers", "autofit"), ("--autofit",) if value else ())


def _context(value: Setting, _wanted: Wanted) -> Answer:
    """Its default is not the shortest: without a number the reader chooses."""
    missing = NO_NUMBER if value is None else ""
    return Words(("contextsize",), ("--contextsize", PLACE if value is None else str(value)), missing=missing)


def _cache_type(value: Setting, _wanted: Wanted) -> Answer:
    if value not in (None, *_CACHE_TYPES):
        return f"KoboldCpp has no cache of {value}"
    return _value_of("quantkv")(None if value is None else _CACHE_TYPES[str(value)], _wanted)


def _attention(value: Setting, _wanted: Wanted) -> Answer:
    """On by itself since 1.117; before, only where it is asked for."""
    words = () if value is None else ("--flashattention",) if value else ("--noflashattention",)
    return Words(("flashattention", "noflashattention"), words)


def _tensor_split(value: Setting, _wanted: Wanted) -> Answer:
    shares = str(value).replace(",", " ").split()
    return Words(("tensor_split",), () if value is None else ("--tensor_split", *shares))


def _load_mode(value: Setting, _wanted: Wanted) -> Answer:
    if value not in (None, *_LOAD_MODES):
        return f"{value!r} is no value of it"
    return Words(("usemmap", "nommap", "usemlock"), _LOAD_MODES.get(str(value), ()))


def _drafting(value: Setting, _wanted: Wanted) -> Answer:
    names = ("draftmodel", "usemtp")
    if not value or value == "none":
        return Words(names)
    if value == "draft-mtp":
        return Words(names, ("--usemtp",))
    return Words(names, ("--draftmodel", str(value)), missing=NO_DRAFT if value == DRAFT_PLACE else "")


def _backend(value: Setting, _wanted: Wanted) -> Answer:
    return Advice(
        [
            "--usevulkan" if value == "Vulkan" else "--usecuda",
            labelled_line(Place.HAND, "take the build of KoboldCpp for it; `--usevulkan` works with any GPU"),
        ]
    )


def _restart(_value: Setting, wanted: Wanted) -> Answer:
    """Once the memory is free, a restart takes it."""
    command = without_secrets(wanted.runtime.command.value_or([]))
    return Advice(restart_lines(command, wanted.at_hand.unit) if command else [])


_TURNS: Mapping[Knob, Turn] = {
    Knob.MODEL_FILE: _model_file,
    Knob.QUANT: _quant,
    Knob.GPU_LAYERS: _layers,
    Knob.FIT: _fit,
    Knob.FIT_MARGIN: _value_of("autofitpadding"),
    Knob.EXPERTS_ON_CPU: _value_of("moecpu", "overridetensors"),
    Knob.CONTEXT_LENGTH: _context,
    Knob.KV_CACHE_TYPE: _cache_type,
    Knob.KV_OFFLOAD: _switched_off_by("lowvram"),
    Knob.FLASH_ATTENTION: _attention,
    Knob.THREADS: _value_of("threads"),
    Knob.BATCH: _value_of("batchsize"),
    Knob.PARALLEL: _value_of("parallelrequests"),
    Knob.DEVICE: _value_of("device", "usecpu"),
    Knob.SPLIT_MODE: _value_of("splitmode"),
    Knob.TENSOR_SPLIT: _tensor_split,
    Knob.LOAD_MODE: _load_mode,
    Knob.SPECULATIVE: _drafting,
    Knob.PROMPT_CACHE: _switched_off_by("nofastforward"),
    Knob.GPU_BACKEND: _backend,
    Knob.OTHER_PROCESS: _restart,
}


def _bare(at_hand: AtHand) -> list[str]:
    path = at_hand.model.path.value_or("")
    return [at_hand.program or "koboldcpp", *(["--model", path] if path else [])]


def _has_model(command: Sequence[str]) -> bool:
    return any(flag.name == "model_param" for flag in spelled_flags(command))


def _removal(names: Sequence[str], command: Sequence[str]) -> str:
    return "" if command else f"remove {FLAGS[names[0]].spellings[0]}"


_PROGRAM = Program(
    "KoboldCpp",
    _TURNS,
    spelled_flags,
    without_secrets,
    _bare,
    "put `--model FILE` into the line: which file the model is in is not known",
    _has_model,
    _removal,
)
