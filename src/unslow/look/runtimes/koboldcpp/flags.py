"""How KoboldCpp spells each setting, old and new; the names are those of its `.kcpps` files.

As in koboldcpp.py 1.76 and 1.117.1.
"""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from unslow.look.command_line import COMMAND, hidden

_LONGEST = 500
_MOST_VALUES = 64
_NUMBER = re.compile(r"-?\d{1,9}(?:\.\d{1,9})?")


class Takes(Enum):
    """What may follow a flag."""

    NOTHING = 0
    ONE = 1
    PERHAPS = 2
    """A number, or nothing."""
    SEVERAL = 3


class Flag(NamedTuple):
    """How a setting is spelled; `alone` is what it means without a value."""

    spellings: tuple[str, ...]
    takes: Takes = Takes.ONE
    alone: str = ""
    older_names: tuple[str, ...] = ()


class Given(NamedTuple):
    """A setting as it was written, and where."""

    values: tuple[str, ...]
    source: str

    @property
    def value(self) -> str:
        return self.values[0] if self.values else ""


class Spelled(NamedTuple):
    """A known flag on a command line: which, the words it takes up, and its values."""

    name: str
    start: int
    end: int
    values: tuple[str, ...]


def _switch(*spellings: str) -> Flag:
    return Flag(spellings, Takes.NOTHING, "true")


FLAGS: dict[str, Flag] = {
    "model_param": Flag(("--model", "-m"), Takes.SEVERAL, older_names=("model",)),
    "config": Flag(("--config",)),
    "host": Flag(("--host",)),
    "port": Flag(("--port",), older_names=("port_param",)),
    "ssl": Flag(("--ssl",), Takes.SEVERAL),
    # where the model goes
    "gpulayers": Flag(("--gpulayers", "--gpu-layers", "--n-gpu-layers", "-ngl"), Takes.PERHAPS, "1"),
    "usecuda": Flag(("--usecublas", "--usecuda", "--usehipblas"), Takes.SEVERAL, older_names=("usecublas",)),
    "usevulkan": Flag(("--usevulkan",), Takes.SEVERAL),
    "useclblast": Flag(("--useclblast",), Takes.SEVERAL),
    "usecpu": _switch("--usecpu"),
    "device": Flag(("--device", "-dev")),
    "maingpu": Flag(("--maingpu", "--main-gpu", "-mg")),
    "tensor_split": Flag(("--tensor_split", "--tensorsplit", "--tensor-split", "-ts"), Takes.SEVERAL),
    "splitmode": Flag(("--splitmode", "--split-mode", "-sm")),
    "lowvram": _switch("--lowvram", "-nkvo", "--no-kv-offload"),
    "moecpu": Flag(("--moecpu", "--n-cpu-moe", "-ncmoe"), Takes.PERHAPS, "999"),
    "overridetensors": Flag(("--overridetensors", "--override-tensor", "-ot")),
    "autofit": _switch("--autofit", "--fit", "-fit"),
    "autofitpadding": Flag(("--autofitpadding",)),
    "usemmap": _switch("--usemmap"),
    "nommap": _switch("--nommap"),
    "usemlock": _switch("--usemlock", "--mlock"),
    # context and caches
    "contextsize": Flag(("--contextsize", "--ctx-size", "-c")),
    "quantkv": Flag(("--quantkv",)),
    "flashattention": _switch("--flashattention"),
    "noflashattention": _switch("--noflashattention", "--no-flash-attn", "-nofa"),
    "nofastforward": _switch("--nofastforward"),
    "noswa": _switch("--noswa", "--swa-full"),
    "parallelrequests": Flag(("--parallelrequests", "--continuous-batching", "--contbatch")),
    # the work itself
    "threads": Flag(("--threads", "-t")),
    "blasthreads": Flag(("--blasthreads", "--batchthreads", "--threadsbatch", "--threads-batch")),
    "batchsize": Flag(("--blasbatchsize", "--batchsize", "--batch-size", "-b"), older_names=("blasbatchsize",)),
    "draftmodel": Flag(("--draftmodel", "--model-draft", "-md")),
    "draftamount": Flag(("--draftamount", "--draft-max", "--draft-n", "--spec-draft-n-max")),
    "usemtp": _switch("--usemtp"),
    # what nobody else may see
    "password": Flag(("--password",)),
    "hordekey": Flag(("--hordekey",)),
    "prompt": Flag(("--prompt", "-p")),
}
SECRET = ("password", "hordekey", "prompt")
_BY_SPELLING = {word: name for name, flag in FLAGS.items() for word in flag.spellings}
_WORDS_AFTER = {"usecuda": ("all", "mmq", "nommq", "normal", "lowvram", "rowsplit")}
"""What may follow a flag besides numbers, so that it does not swallow the model's name."""


def parse_command(command: Sequence[str]) -> dict[str, Given]:
    """The settings of a command line; a model and a port may stand there without a flag."""
    start = program_end(command)
    found = {
        s.name: Given(s.values, COMMAND if s.name in SECRET else f"{COMMAND}: {' '.join(command[s.start : s.end])}")
        for s in spelled_flags(command)
    }
    taken = {at for s in spelled_flags(command) for at in range(s.start, s.end)}
    bare = [w for at, w in enumerate(command) if at >= start and at not in taken and not w.startswith("-")]
    for name, word in zip(("model_param", "port"), bare, strict=False):
        found.setdefault(name, Given((word,), f"{COMMAND}: {word}"))
    return found


def program_end(command: Sequence[str]) -> int:
    """Where the arguments start: a script has its interpreter before it."""
    scripts = [at for at, word in enumerate(command[:8]) if word.endswith("koboldcpp.py")]
    return scripts[0] + 1 if scripts else 1


def spelled_flags(command: Sequence[str]) -> list[Spelled]:
    """The known flags of a command line, in order."""
    found, at = [], program_end(command)
    while at < len(command):
        word, equals, attached = command[at].partition("=")
        name = _BY_SPELLING.get(word)
        if name is None:
            at += 1
            continue
        values = (attached,) if equals else _following(name, command, at + 1)
        end = at + 1 if equals else at + 1 + len(values)
        found.append(Spelled(name, at, end, values or (FLAGS[name].alone,)))
        at = end
    return found


def _following(name: str, command: Sequence[str], at: int) -> tuple[str, ...]:
    takes = FLAGS[name].takes
    if takes is Takes.NOTHING:
        return ()
    if takes is Takes.ONE:
        return tuple(command[at : at + 1])
    most = 1 if takes is Takes.PERHAPS else _MOST_VALUES
    values: list[str] = []
    for word in command[at : at + most]:
        if not (_NUMBER.fullmatch(word) or (takes is Takes.SEVERAL and _may_follow(name, word))):
            break
        values.append(word)
    return tuple(values)


def _may_follow(name: str, word: str) -> bool:
    return (name in ("model_param", "ssl") and not word.startswith("-")) or word in _WORDS_AFTER.get(name, ())


def parse_config(data: Any, source: str) -> dict[str, Given]:
    """The settings of a `.kcpps` file, which holds every one of them, defaults too."""
    if not isinstance(data, Mapping):
        return {}
    found = {}
    for name, flag in FLAGS.items():
        values = next((v for key in (name, *flag.older_names) if (v := _values(data.get(key))) is not None), None)
        if values is not None:
            found[name] = Given(values, f"{source}: {name}")
    return found


def _values(value: Any) -> tuple[str, ...] | None:
    """As a command line would have it; None where the file leaves it to KoboldCpp."""
    match value:
        case True:
            return ("true",)
        case int() | float():
            return None if value is False else (str(value),)
        case str():
            return (value[:_LONGEST],) if value else None
        case list():
            return tuple(str(part)[:_LONGEST] for part in value[:_MOST_VALUES] if isinstance(part, str | int | float))
        case _:
            return None


def without_secrets(command: Sequence[str]) -> list[str]:
    """The command line as anybody may see it."""
    return hidden(command, [(flag.start, flag.end) for flag in spelled_flags(command) if flag.name in SECRET])
