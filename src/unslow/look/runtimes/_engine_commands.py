"""What the knobs of vLLM, SGLang and TGI have in common: all are told everything by flags of argparse."""

import re
from collections.abc import Mapping, Sequence

from unslow.facts.commands import Place, labelled_line
from unslow.facts.knob import Setting
from unslow.facts.runtime import Runtime
from unslow.look.command_line import Flags
from unslow.look.command_writer import NO_NUMBER, PLACE, Answer, ChangeRequest, Turn, Words, advice, is_integer
from unslow.look.runtimes._given_settings import config_path

MORE_MEMORY, MOST_MEMORY = 0.03, 0.97
"""A step of the share of GPU memory that a server takes, and the most that leaves room for what is not counted."""
SHORTEST_CONTEXT = 4096
NO_GPUS = "the number of GPUs is unknown"


def removal(flags: Flags, names: Sequence[str], command: Sequence[str]) -> str:
    """What to leave out, where it is unknown whether it was set: the flag, or its line of a file."""
    flag, file = flags[names[0]].spellings[0], config_path(command)
    if file:
        return f"in {file}: remove {flag.lstrip('-')}"
    return "" if command else f"start it without {flag}"


def number(name: str, flag: str) -> Turn:
    """A flag that takes a whole number; the reader chooses where none is known."""

    def turn(value: Setting, _wanted: ChangeRequest) -> Answer:
        if value is None:
            return Words((name,), (flag, PLACE), missing=NO_NUMBER)
        whole = is_integer(value) and value > 0
        return Words((name,), (flag, str(value))) if whole else f"{value!r} is not a value of {flag}"

    return turn


def share(flag: str, *names: str) -> Turn:
    """A flag that takes a share from 0 to 1."""

    def turn(value: Setting, _wanted: ChangeRequest) -> Answer:
        if value is None:
            return Words(names, (flag, PLACE), missing=NO_NUMBER)
        is_share = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
        return Words(names, (flag, f"{value:g}")) if is_share else f"{value!r} is not between 0 and 1"

    return turn


def cache_type(flag: str, words: Mapping[str, str], engine: str) -> Turn:
    """The type of the KV cache, by the engine's word for each that it has."""

    def turn(value: Setting, _wanted: ChangeRequest) -> Answer:
        if value is None:
            return Words(("kv_type",))
        known = str(value) in words
        return Words(("kv_type",), (flag, words[str(value)])) if known else f"{engine} has no {value} KV cache"

    return turn


def only_away(*names: str) -> Turn:
    """Settings that can be taken out, and no value can be put in for."""
    return lambda value, _wanted: Words(names) if value in (None, -1, "none", True) else ""


def switched_off_by(name: str, flag: str) -> Turn:
    """What is on unless a flag switches it off."""
    return lambda value, _wanted: Words((name,), (flag,) if value is False else ())


def gpus_in_use(runtime: Runtime) -> int:
    """Over how many GPUs the model is spread now."""
    return runtime.placement.tensor_parallel.value_or(1) * runtime.placement.pipeline_parallel.value_or(1)


def visible_device(value: Setting, _wanted: ChangeRequest) -> Answer:
    """CUDA1 is GPU 1, and 1,2 are two of them; a product's name has other figures."""
    named = re.fullmatch(r"[A-Za-z]*(\d{1,3}(?:,\d{1,3}){0,63})", str(value))
    missing = "" if named else f"{value!r} is not a device"
    return Words(environment={"CUDA_VISIBLE_DEVICES": named[1] if named else "NUMBER"}, missing=missing)


unthinking = advice(labelled_line(Place.REQUEST, '"chat_template_kwargs": {"enable_thinking": false}'))
"""Of a model that reasons: the client switches it off."""
