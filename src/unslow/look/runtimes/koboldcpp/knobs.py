"""How KoboldCpp spells each knob: the flag, and the whole command line to start it again with."""

import shlex
from collections.abc import Sequence

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.look.command_line import taken_out
from unslow.look.runtimes.koboldcpp.flags import FLAGS, spelled_flags, without_secrets

NAMES: dict[Knob, tuple[str, ...]] = {
    Knob.GPU_LAYERS: ("gpulayers",),
    Knob.FIT: ("gpulayers", "autofit"),
    Knob.FIT_MARGIN: ("autofitpadding",),
    Knob.EXPERTS_ON_CPU: ("moecpu", "overridetensors"),
    Knob.CONTEXT_LENGTH: ("contextsize",),
    Knob.KV_CACHE_TYPE: ("quantkv",),
    Knob.KV_OFFLOAD: ("lowvram",),
    Knob.FLASH_ATTENTION: ("flashattention", "noflashattention"),
    Knob.THREADS: ("threads",),
    Knob.BATCH: ("batchsize",),
    Knob.PARALLEL: ("parallelrequests",),
    Knob.DEVICE: ("device", "usecpu"),
    Knob.SPLIT_MODE: ("splitmode",),
    Knob.TENSOR_SPLIT: ("tensor_split",),
    Knob.LOAD_MODE: ("usemmap", "nommap", "usemlock"),
    Knob.SPECULATIVE: ("draftmodel", "usemtp"),
    Knob.PROMPT_CACHE: ("nofastforward",),
}
"""The settings that a knob turns; the first of them gives it its value."""
_ALL_LAYERS = 999
"""More than any model has: less than nought lets KoboldCpp choose."""
_CACHE_TYPES = {"f16": "0", "q8_0": "1", "q4_0": "2"}  # numbers are understood by every version
_SWITCHED_OFF_BY = {Knob.KV_OFFLOAD: "lowvram", Knob.PROMPT_CACHE: "nofastforward"}
_LOAD_MODES = {"mmap": "--usemmap", "mlock": "--usemlock", "mmap+mlock": "--usemmap --usemlock"}


def spell(change: Change, runtime: Runtime) -> list[str]:
    """What to type, from the shortest to the whole command where that is known; [] where there is nothing to type."""
    command = runtime.command.value_or([])
    if change.knob is Knob.QUANT:
        return [labelled(Place.HAND, f"give `--model` the file of this model as {change.value or 'a smaller quant'}")]
    if change.knob is Knob.GPU_BACKEND:
        return [
            "--usevulkan" if change.value == "Vulkan" else "--usecuda",
            labelled(Place.HAND, "take the build of KoboldCpp for it; `--usevulkan` works with any GPU"),
        ]
    if change.knob is Knob.OTHER_PROCESS:
        return [shlex.join(without_secrets(command))] if command else []
    if change.knob not in NAMES:
        return []
    if change.knob is Knob.CONTEXT_LENGTH and change.value is None:
        return ["--contextsize N", labelled(Place.HAND, "with a smaller N than now")]  # its default is not the shortest
    return _spelled_flags(change, command)


def _spelled_flags(change: Change, command: Sequence[str]) -> list[str]:
    """The flags of a knob, and the command with them; nothing where it is as it should be already."""
    words = words_of(change.knob, change.value)
    removed = [shlex.join(command[s.start : s.end]) for s in spelled_flags(command) if s.name in NAMES[change.knob]]
    if command and not words and not removed:
        return []
    fragment = shlex.join(words) or f"remove {' '.join(removed) or FLAGS[NAMES[change.knob][0]].spellings[0]}"
    return [fragment, shlex.join(changed_command(command, change))] if command else [fragment]


def changed_command(command: Sequence[str], change: Change) -> list[str]:
    """The command line with the knob's flags taken out, and put in anew unless there is nothing to put in."""
    names = NAMES.get(change.knob, ())
    kept = taken_out(command, ((flag.start, flag.end) for flag in spelled_flags(command) if flag.name in names))
    return without_secrets([*kept, *words_of(change.knob, change.value)])


def words_of(knob: Knob, value: Setting) -> list[str]:
    """The flags that give a knob this value; none for None, which leaves it to KoboldCpp."""
    flag = FLAGS[NAMES[knob][0]].spellings[0]
    if value is None:
        return []
    if knob is Knob.GPU_LAYERS and value == -1:
        value = _ALL_LAYERS
    if knob in _SWITCHED_OFF_BY:
        return [] if value else [flag]
    if knob is Knob.FLASH_ATTENTION:
        return [flag if value else FLAGS["noflashattention"].spellings[0]]
    if knob is Knob.FIT:
        return [FLAGS["autofit"].spellings[0]] if value else []
    if knob is Knob.LOAD_MODE:
        return _LOAD_MODES.get(str(value), "").split()
    return [flag, *_value(knob, value)]


def _value(knob: Knob, value: Setting) -> list[str]:
    if knob is Knob.TENSOR_SPLIT:
        return str(value).replace(",", " ").split()
    return [_CACHE_TYPES.get(str(value), str(value)) if knob is Knob.KV_CACHE_TYPE else str(value)]
