"""The commands of KoboldCpp: every knob as flags, and what is none as advice."""

from collections.abc import Mapping

from unslow.facts.commands import by_hand
from unslow.facts.knob import Knob, Setting
from unslow.look import command_writer as writer
from unslow.look.command_writer import Advice, Answer, ChangeRequest, Turn, Words
from unslow.look.runtimes._engine_commands import switched_off_by
from unslow.look.runtimes.koboldcpp.flags import FLAGS

_ALL_LAYERS = "999"  # More than any model has: a negative number lets KoboldCpp choose
_CACHE_TYPES = {"f16": "0", "q8_0": "1", "q4_0": "2"}  # numbers are understood by every version
_LOAD_MODES = {"none": (), "mmap": ("--usemmap",), "mlock": ("--usemlock",), "mmap+mlock": ("--usemmap", "--usemlock")}


def _value_of(*names: str) -> Turn:
    """A flag with a value, that of the first of these settings; None leaves all of them to KoboldCpp."""

    def turn(value: Setting, _wanted: ChangeRequest) -> Answer:
        if isinstance(value, bool):
            return f"{value!r} is not a valid value"
        return Words(names, () if value is None else (FLAGS[names[0]].spellings[0], str(value)))

    return turn


def _drafting(value: Setting, _wanted: ChangeRequest) -> Answer:
    names = ("draftmodel", "usemtp")
    if not value or value == "none":
        return Words(names)
    if value == "draft-mtp":
        return Words(names, ("--usemtp",))
    return Words(names, ("--draftmodel", str(value)), missing=writer.missing_draft(value))


_TURNS: Mapping[Knob, Turn] = {
    Knob.MODEL_FILE: lambda value, _wanted: (
        Words(("model_param",), ("--model", str(value)))
        if str(value).lower().endswith(".gguf")
        else f"{value} is not a GGUF file"
    ),
    Knob.QUANT: writer.quant_by_file("--model"),
    Knob.GPU_LAYERS: lambda value, wanted: _value_of("gpulayers")(_ALL_LAYERS if value == -1 else value, wanted),
    Knob.FIT: lambda value, _wanted: Words(("gpulayers", "autofit"), ("--autofit",) if value else ()),
    Knob.FIT_MARGIN: _value_of("autofitpadding"),
    Knob.EXPERTS_ON_CPU: _value_of("moecpu", "overridetensors"),
    # its default is not the shortest: without a number the reader chooses
    Knob.CONTEXT_LENGTH: lambda value, _wanted: Words(
        ("contextsize",),
        ("--contextsize", writer.PLACE if value is None else str(value)),
        missing=writer.NO_NUMBER if value is None else "",
    ),
    Knob.KV_CACHE_TYPE: lambda value, wanted: (
        _value_of("quantkv")(_CACHE_TYPES.get(str(value)), wanted)
        if value in (None, *_CACHE_TYPES)
        else f"KoboldCpp has no {value} KV cache"
    ),
    Knob.KV_OFFLOAD: switched_off_by("lowvram", "--lowvram"),
    # on by itself since 1.117; before, only where it is asked for
    Knob.FLASH_ATTENTION: lambda value, _wanted: Words(
        ("flashattention", "noflashattention"),
        () if value is None else ("--flashattention",) if value else ("--noflashattention",),
    ),
    Knob.THREADS: _value_of("threads"),
    Knob.BATCH: _value_of("batchsize"),
    Knob.PARALLEL: _value_of("parallelrequests"),
    Knob.DEVICE: _value_of("device", "usecpu"),
    Knob.SPLIT_MODE: _value_of("splitmode"),
    Knob.TENSOR_SPLIT: lambda value, _wanted: Words(
        ("tensor_split",), () if value is None else ("--tensor_split", *str(value).replace(",", " ").split())
    ),
    Knob.LOAD_MODE: lambda value, _wanted: (
        Words(("usemmap", "nommap", "usemlock"), _LOAD_MODES.get(str(value), ()))
        if value in (None, *_LOAD_MODES)
        else f"{value!r} is not a valid value"
    ),
    Knob.SPECULATIVE: _drafting,
    Knob.PROMPT_CACHE: switched_off_by("nofastforward", "--nofastforward"),
    Knob.GPU_BACKEND: lambda value, _wanted: Advice(
        [
            "--usevulkan" if value == "Vulkan" else "--usecuda",
            by_hand("use the KoboldCpp build for it; `--usevulkan` works with any GPU"),
        ]
    ),
    Knob.OTHER_PROCESS: writer.restart(FLAGS.without_secrets),
}


_PROGRAM = writer.Program(
    "KoboldCpp",
    _TURNS,
    FLAGS,
    bare=lambda at_hand: [
        at_hand.program or "koboldcpp",
        *(["--model", path] if (path := at_hand.model.path.value_or("")) else []),
    ],
    no_model="add `--model FILE`: the model file is unknown",
    model_flags=("model_param",),
)
commands_for = _PROGRAM.commands_for
