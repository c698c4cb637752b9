"""How KoboldCpp spells each setting, old and new, and what it was told or does by default, as facts.

As in koboldcpp.py 1.76 and 1.117.1.
"""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import takewhile
from typing import Any, NamedTuple

from unslow.facts.runtime import Runtime
from unslow.facts.values import MIB, Fact, Known, estimated, failed, not_found, reported
from unslow.look.command_line import COMMAND, with_secrets_hidden

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

    @property
    def fact(self) -> Known[str]:
        return reported(self.value, self.source)


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
    found, taken = {}, set[int]()
    for name, first, end, values in spelled_flags(command):
        found[name] = Given(values, COMMAND if name in SECRET else f"{COMMAND}: {' '.join(command[first:end])}")
        taken.update(range(first, end))
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
    if takes is Takes.PERHAPS:
        return tuple(word for word in command[at : at + 1] if _NUMBER.fullmatch(word))

    def belongs(word: str) -> bool:
        any_word = name in ("model_param", "ssl") and not word.startswith("-")
        return bool(_NUMBER.fullmatch(word)) or any_word or word in _WORDS_AFTER.get(name, ())

    return tuple(takewhile(belongs, command[at : at + _MOST_VALUES]))


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
    secrets = [(flag.start, flag.end) for flag in spelled_flags(command) if flag.name in SECRET]
    return with_secrets_hidden(command, secrets)


OLD, NEW = (1, 76), (1, 117)  # The versions whose defaults are known: what lies between them had the one or the other
_MOST_DIGITS = 9
_CACHE_TYPES = {"0": "f16", "1": "q8_0", "2": "q4_0"}
_NAMED_TYPES = ("f16", "bf16", "q8_0", "q5_1", "q4_0")

Settings = Mapping[str, Given]


def requested_settings(given: Settings, version: str) -> Runtime:
    """Every setting that a command line or a file of settings decides."""
    flash = _by_version(given, version, on="flashattention", off="noflashattention", old=False, new=True)
    kind = _cache_type(given)
    facts: dict[str, Any] = {
        **_placement(given),
        "flash_attention": flash,
        "load_mode": _load_mode(given, version),
        "threads": _count(given, "threads"),
        "threads_batch": _count(given, "blasthreads", positive=True),
        "batch": _count(given, "batchsize", 512),
        "context_set": _count(given, "contextsize"),
        "kv_type_k": kind,
        # without flash attention only the keys are kept quantised
        "kv_type_v": estimated("f16", "without flash attention") if flash.value_or(None) is False else kind,
        "swa_full": _switch_fact(given, "noswa", on=True),
        "prompt_cache": _switch_fact(given, "nofastforward", on=False),
        "slots": _count(given, "parallelrequests", 1),
        "speculative": _missing("draftmodel"),
    }
    # by the model's own layers, or by a smaller model; without either, a number of tokens means nothing
    if _is_on(given, "usemtp"):
        facts["speculative"] = reported("draft-mtp", given["usemtp"].source)
    elif "draftmodel" in given:
        facts["speculative"] = given["draftmodel"].fact
    if isinstance(facts["speculative"], Known):
        facts["draft_tokens"] = _count(given, "draftamount", 4)
    return Runtime(**facts)


def _placement(given: Settings) -> dict[str, Fact[Any]]:
    margin = _count(given, "autofitpadding", 1024)
    margin = Known(margin.value * MIB, margin.origin, margin.source) if isinstance(margin, Known) else margin
    facts: dict[str, Fact[Any]] = {
        "gpu_layers_set": _count(given, "gpulayers"),
        "fit": _fit(given),
        "fit_margin_bytes": margin,
        "device_set": _device(given),
        "main_gpu": _count(given, "maingpu"),
        "split_mode": given["splitmode"].fact if "splitmode" in given else _missing("splitmode", "layer"),
        "tensor_split": _shares(given),
        "tensor_overrides": _overrides(given),
        "kv_offload": _switch_fact(given, "lowvram", on=False),
    }
    # words after --usecublas before they became flags
    words, source = given["usecuda"] if "usecuda" in given else Given((), "")
    if "rowsplit" in words:
        facts["split_mode"] = reported("row", source)
    if "lowvram" in words:
        facts["kv_offload"] = reported(value=False, source=source)
    return facts


def _fit(given: Settings) -> Fact[bool]:
    if _is_on(given, "autofit"):
        return reported(value=True, source=given["autofit"].source)
    layers = _count(given, "gpulayers")
    if isinstance(layers, Known):
        return reported(value=False, source=layers.source)
    return estimated(value=True, source="default of KoboldCpp: it chooses the layers")


def _device(given: Settings) -> Fact[str]:
    if _is_on(given, "usecpu"):
        return reported("none", given["usecpu"].source)
    if "device" in given:
        return given["device"].fact
    for name, backend in (("usecuda", "CUDA"), ("usevulkan", "Vulkan")):
        ids = [word for word in given[name].values if word.isdecimal()] if name in given else []
        if ids:
            return reported(",".join(f"{backend}{number}" for number in ids), given[name].source)
    return _missing("device")


def _shares(given: Settings) -> Fact[list[float]]:
    if "tensor_split" not in given:
        return _missing("tensor_split")
    words = given["tensor_split"].values
    sane = words and all(re.fullmatch(r"\d{1,9}(\.\d{1,9})?", word) for word in words)
    source = given["tensor_split"].source
    return reported([float(word) for word in words], source) if sane else failed(f"{source}: not a list of numbers")


def _overrides(given: Settings) -> Fact[list[str]]:
    experts = _count(given, "moecpu")
    words = [f"--n-cpu-moe {experts.value_or(0)}"] if experts.value_or(0) else []
    words += [given["overridetensors"].value] if "overridetensors" in given else []
    named = [given[name].source for name in ("moecpu", "overridetensors") if name in given]
    return reported(words, named[0] if words else "command line: no --moecpu, no --overridetensors")


def _cache_type(given: Settings) -> Fact[str]:
    if "quantkv" not in given:
        return estimated("f16", "default of KoboldCpp: no --quantkv")
    value, source = given["quantkv"].value, given["quantkv"].source
    word = _CACHE_TYPES.get(value, value)
    return reported(word, source) if word in _NAMED_TYPES else failed(f"{source}: which type that is, is not known")


def _load_mode(given: Settings, version: str) -> Fact[str]:
    mapped = _by_version(given, version, on="usemmap", off="nommap", old=True, new=False)
    locked = _is_on(given, "usemlock")
    if not isinstance(mapped, Known):
        return mapped
    words = [word for word, is_on in (("mmap", mapped.value), ("mlock", locked)) if is_on]
    source = f"{mapped.source}, {given['usemlock'].source}" if locked else mapped.source
    return Known("+".join(words) or "none", mapped.origin, source)


def _by_version(given: Settings, version: str, *, on: str, off: str, old: bool, new: bool) -> Fact[bool]:
    for name, value in ((on, True), (off, False)):
        if _is_on(given, name):
            return reported(value, given[name].source)
    number = parse_version(version)
    if number >= NEW:
        return estimated(new, f"default of KoboldCpp {version}")
    if number and number[:2] <= OLD:
        return estimated(old, f"default of KoboldCpp {version}")
    return not_found(f"neither {FLAGS[on].spellings[0]} nor {FLAGS[off].spellings[0]} was given; versions differ")


def parse_version(version: str) -> tuple[int, ...]:
    """1.117.1 as numbers; empty where it is none."""
    found = re.match(r"(\d{1,4})\.(\d{1,6})(?:\.(\d{1,6}))?", version)
    return tuple(int(part) for part in found.groups() if part) if found else ()


def _count(given: Settings, name: str, default: int | None = None, *, positive: bool = False) -> Fact[int]:
    """A whole number; less than nought (or than one) leaves the choice to KoboldCpp."""
    if name not in given:
        return _missing(name, default)
    value, source = given[name].value, given[name].source
    digits = value.removeprefix("-")
    if not (digits.isdecimal() and digits.isascii() and len(digits) <= _MOST_DIGITS):
        return failed(f"{source}: {value[:40]!r} is not a number")
    number = int(value)
    return reported(number, source) if number >= int(positive) else not_found(f"{source} lets KoboldCpp choose")


def _switch_fact(given: Settings, name: str, *, on: bool) -> Fact[bool]:
    """What a switch means when it is on; the opposite holds without it."""
    return reported(on, given[name].source) if _is_on(given, name) else _missing(name, not on)


def _is_on(given: Settings, name: str) -> bool:
    return name in given and given[name].value == "true"


def _missing(name: str, default: Any = None) -> Fact[Any]:
    if default is not None:
        return estimated(default, f"default of KoboldCpp: no {FLAGS[name].spellings[0]}")
    return not_found(f"{FLAGS[name].spellings[0]} was not given")
