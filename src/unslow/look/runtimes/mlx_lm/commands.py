"""The commands of MLX-LM's server: the few knobs that it has flags for, and what has none as advice."""

from collections.abc import Mapping, Sequence

from unslow.facts.commands import Commands
from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.look.at_hand import NOTHING, AtHand
from unslow.look.command_line import Spelled
from unslow.look.command_writer import (
    DRAFT_PLACE,
    NO_DRAFT,
    Advice,
    Answer,
    Program,
    Turn,
    Wanted,
    Words,
    write_commands,
)
from unslow.look.runtimes.mlx_lm.arguments import SWITCHES

_USUAL_PROMPTS = 10
"""That a cache keeps by itself (mlx_lm/server.py)."""


def commands_for(changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING) -> Commands:
    """One command line with all changes, and the way to start it by whoever starts it now."""
    return write_commands(_PROGRAM, changes, runtime, at_hand)


def _flag(flag: str) -> Turn:
    """A flag with a value; None leaves it to the server."""
    return lambda value, _wanted: Words((flag,), () if value is None else (flag, str(value)))


def _prompt_cache(value: Setting, wanted: Wanted) -> Answer:
    size = (_USUAL_PROMPTS if value else 0) if isinstance(value, bool) else value
    return _flag("--prompt-cache-size")(size, wanted)


def _drafting(value: Setting, _wanted: Wanted) -> Answer:
    words = ("--draft-model", str(value)) if value and value != "none" else ()
    return Words(("--draft-model",), words, missing=NO_DRAFT if value == DRAFT_PLACE else "")


def _quant(value: Setting, _wanted: Wanted) -> Answer:
    kind = value or "fewer bits"
    return Advice([labelled(Place.HAND, f"give `--model` a repository that holds this model in {kind}")])


def _version(_value: Setting, _wanted: Wanted) -> Answer:
    return Advice(["pip install --upgrade mlx-lm"])


_TURNS: Mapping[Knob, Turn] = {
    Knob.PARALLEL: _flag("--decode-concurrency"),
    Knob.BATCH: _flag("--prefill-step-size"),
    Knob.SPECULATIVE: _drafting,
    Knob.PROMPT_CACHE: _prompt_cache,
    Knob.QUANT: _quant,
    Knob.VERSION: _version,
}


def _flags(command: Sequence[str]) -> list[Spelled]:
    """Every flag with its value, by its own spelling."""
    found = []
    for at, word in enumerate(command):
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            alone = bool(equals) or flag in SWITCHES
            following = command[at + 1] if at + 1 < len(command) else ""
            found.append(Spelled(flag, at, at + (1 if alone else 2), value if alone else following))
    return found


def _bare(at_hand: AtHand) -> list[str]:
    model = at_hand.checkpoint
    return [at_hand.program or "mlx_lm.server", *(["--model", model] if model else [])]


def _has_model(command: Sequence[str]) -> bool:
    return any(flag.name == "--model" for flag in _flags(command))


def _removal(names: Sequence[str], command: Sequence[str]) -> str:
    return "" if command else f"remove {names[0]}"


_PROGRAM = Program(
    "MLX-LM",
    _TURNS,
    _flags,
    list,
    _bare,
    "put `--model MODEL` into the line: which model it is, is not known",
    _has_model,
    _removal,
)
