"""Many changes at once as one whole command line of KoboldCpp, where it belongs."""

from collections.abc import Sequence

from unslow.facts.knob import Change, Knob
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.facts.spelled import Spelled
from unslow.look.at_hand import NOTHING, AtHand
from unslow.look.command_line import taken_out
from unslow.look.runtimes.koboldcpp.flags import spelled_flags, without_secrets
from unslow.look.runtimes.koboldcpp.knobs import NAMES, words_of
from unslow.look.supervised import started

_CACHE_TYPES = ("f16", "q8_0", "q4_0")
_NO_MODEL = "put `--model FILE` into the line: which file the model is in is not known"


def spell_all(changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING) -> Spelled:
    """One command line with all changes, and the way to start it by whoever starts it now."""
    asked = {change.knob: change for change in changes}
    left = tuple((change, why) for change in asked.values() if (why := _why_not(change, asked)))
    missing = [change.knob for change, _ in left]
    turned = [change for change in asked.values() if change.knob not in missing and change.knob is not Knob.QUANT]
    if not turned:
        return Spelled(left_out=left)
    command = runtime.command.value_or([]) or _bare(at_hand)
    names = {name for change in turned for name in _names(change)}
    kept = taken_out(command, ((flag.start, flag.end) for flag in spelled_flags(command) if flag.name in names))
    argv = [*kept, *(word for change in turned for word in _words(change))]
    lines = started(without_secrets(argv), {}, runtime.container.value_or(""), at_hand.unit)
    whole = any(flag.name == "model_param" for flag in spelled_flags(argv)) or bool(runtime.command.value_or([]))
    notes = () if whole else (labelled(Place.HAND, _NO_MODEL),)
    return Spelled((*notes, *lines), left, tuple(argv) if whole else ())


def _bare(at_hand: AtHand) -> list[str]:
    path = at_hand.model.path.value_or("")
    return [at_hand.program or "koboldcpp", *(["--model", path] if path else [])]


def _why_not(change: Change, asked: "dict[Knob, Change]") -> str:
    """Why it has no words for a change; empty where it has."""
    match change.knob:
        case Knob.MODEL_FILE:
            return "" if str(change.value).lower().endswith(".gguf") else f"{change.value} is not a GGUF file"
        case Knob.QUANT:
            return "" if Knob.MODEL_FILE in asked else f"no file of this model as {change.value} was named"
        case Knob.KV_CACHE_TYPE:
            return "" if change.value in (None, *_CACHE_TYPES) else f"KoboldCpp has no cache of {change.value}"
        case knob:
            return "" if knob in NAMES else "KoboldCpp has no setting for it"


def _names(change: Change) -> tuple[str, ...]:
    return ("model_param",) if change.knob is Knob.MODEL_FILE else NAMES[change.knob]


def _words(change: Change) -> list[str]:
    if change.knob is Knob.MODEL_FILE:
        return ["--model", str(change.value)]
    return words_of(change.knob, change.value)
