"""Knobs as changes of a command line: which settings go, which words come."""

import shlex
from collections.abc import Callable
from typing import NamedTuple

from unslow.facts.knob import Change, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.look.serving.arguments import Flags
from unslow.look.serving.config_file import config_path
from unslow.look.serving.restart import given_flags, restarted

PLACE = "N"
"""Stands for a number that is for the reader to choose."""

MORE_MEMORY, MOST_MEMORY = 0.03, 0.97
"""A step of the share of GPU memory that a server takes, and the most that leaves room for what is not counted."""
SHORTEST_CONTEXT = 4096
UNTHINKING = [labelled(Place.REQUEST, '"chat_template_kwargs": {"enable_thinking": false}')]

_KV_TYPES = {"q8_0": "fp8", "q4_0": "fp8", "f16": "auto", "bf16": "auto"}


class Turn(NamedTuple):
    """How one knob is turned: settings that are taken out, and words that are put in for a value."""

    settings: tuple[str, ...]
    words: Callable[[Setting], list[str]]


def spell_turn(flags: Flags, turn: Turn, change: Change, runtime: Runtime) -> list[str]:
    """What to type: the flag, and the whole command where it is known; empty where there is nothing to change."""
    command, environment = runtime.command.value_or([]), runtime.environment.value_or({})
    words, given = turn.words(change.value), given_flags(flags, command, turn.settings)
    variables = [v for name in turn.settings for v in flags.flags[name].variables if v in environment]
    if not words and not given and not variables:
        file = config_path(command)
        return _removed(flags, turn, file) if file or not command else []
    fragment = shlex.join(words) if words else f"remove {' '.join((*([given] if given else []), *variables))}"
    again = restarted(flags, command, environment, turn.settings, words)
    return [fragment, again] if again and PLACE not in words else [fragment]


def _removed(flags: Flags, turn: Turn, file: str = "") -> list[str]:
    """What to leave out, where nobody knows whether it was put in: the flag that people use, or its line of a file."""
    flag = flags.flags[turn.settings[0]].spellings[0]
    return [f"in {file}: remove {flag.lstrip('-')}" if file else f"start it without {flag}"]


def number(flag: str) -> Callable[[Setting], list[str]]:
    """A flag that takes a number; the reader chooses where none is known."""
    return lambda value: [flag, PLACE if value is None or isinstance(value, bool) else str(value)]


def gpus_of_split(value: Setting) -> str:
    """How many GPUs a way to split a model takes: one for none, else what the reader has."""
    if value == "none":
        return "1"
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else PLACE


def stages(flag: str, runtime: Runtime) -> Turn:
    """Whole layers on each of the GPUs that share every layer now."""
    count = runtime.tensor_parallel.value_or(1) * runtime.pipeline_parallel.value_or(1)
    words = [flag, str(count) if count > 1 else PLACE]
    return Turn(("tensor_parallel", "pipeline_parallel"), lambda _value: words)


def halved_context(flag: str, runtime: Runtime) -> list[str]:
    """Half the longest request that is accepted now, where that is known and long."""
    tokens = runtime.context_length.value_or(0) // 2
    return [f"{flag} {tokens}"] if tokens >= SHORTEST_CONTEXT else []


def nothing(_value: Setting) -> list[str]:
    """Only to be taken out."""
    return []


def kv_type(value: Setting) -> list[str]:
    """The nearest type that these engines have."""
    return ["--kv-cache-dtype", _KV_TYPES.get(str(value), str(value or "fp8"))]
