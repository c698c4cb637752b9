"""Many changes at once as one whole command line of vLLM, where it belongs."""

from collections.abc import Sequence

from unslow.facts.knob import Change
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.facts.spelled import Spelled
from unslow.look.at_hand import NOTHING, AtHand
from unslow.look.runtimes.vllm.words import Wanted, Words, words_of
from unslow.look.serving.restart import without_flags
from unslow.look.serving.vllm_flags import FLAGS, model_of
from unslow.look.supervised import started

_PROGRAM = ("vllm", "serve")
_NO_MODEL = "put the model after `vllm serve`: which one it is, is not known"


def spell_all(changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING) -> Spelled:
    """One command line with all changes, and the way to start it by whoever starts it now."""
    wanted = Wanted({change.knob: change.value for change in changes}, runtime, at_hand)
    asked = {change.knob: change for change in changes}.values()  # the last word on a knob counts
    answers = [(change, words_of(change, wanted)) for change in asked]
    turned = [answer for _, answer in answers if isinstance(answer, Words) and not answer.missing]
    why = [(change, answer if isinstance(answer, str) else answer.missing) for change, answer in answers]
    left = tuple((change, reason) for change, reason in why if reason)
    if not turned:
        return Spelled(left_out=left)
    argv = _changed(_command(runtime, at_hand), turned)
    environment = _environment(turned, runtime)
    lines = started(FLAGS.without_secrets(argv), environment, runtime.container.value_or(""), at_hand.unit)
    missing = () if _has_model(argv) else (labelled(Place.HAND, _NO_MODEL),)
    return Spelled((*missing, *lines), left, () if missing else tuple(argv), environment)


def _command(runtime: Runtime, at_hand: AtHand) -> list[str]:
    """What runs now; where nothing does, the model at hand."""
    if command := runtime.command.value_or([]):
        return list(command)
    model = at_hand.checkpoint
    program = (at_hand.program, "serve") if at_hand.program else _PROGRAM
    return [*program, *([model] if model else [])]


def _has_model(argv: Sequence[str]) -> bool:
    return bool(model_of(argv, FLAGS.settings(argv, {})))


def _changed(command: list[str], turned: Sequence[Words]) -> list[str]:
    names = list(dict.fromkeys(name for words in turned for name in words.names))
    put_in = list(dict.fromkeys(words.words for words in turned if words.words))  # graphs and compiling are one switch
    model = next((words.model for words in turned if words.model), "")
    kept = without_flags(FLAGS, command, names)
    return [*(_with_model(kept, model) if model else kept), *(word for words in put_in for word in words)]


def _with_model(command: list[str], model: str) -> list[str]:
    """Another model in the place of the one that is there, however it is given."""
    settings = FLAGS.settings(command, {})
    if "model" in settings:
        return [*without_flags(FLAGS, command, ["model"]), "--model", model]
    now = model_of(command, settings)
    start = command.index("serve") + 1 if "serve" in command else len(command)
    if now and now in command[start:]:
        at = command.index(now, start)
        return [*command[:at], model, *command[at + 1 :]]
    return [*command[:start], model, *command[start:]]


def _environment(turned: Sequence[Words], runtime: Runtime) -> dict[str, str | None]:
    """What is needed, and variables away that would set the same again."""
    there = runtime.environment.value_or({})
    names = dict.fromkeys(name for words in turned for name in words.names)
    away: dict[str, str | None] = dict.fromkeys(v for n in names for v in FLAGS.flags[n].variables if v in there)
    return away | {name: value for words in turned for name, value in words.environment.items()}
