"""How KoboldCpp spells each setting, old and new, and what it was told or does by default, as facts.

As in koboldcpp.py 1.76 and 1.117.1.
"""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import takewhile
from typing import Any, NamedTuple

from unslow.facts.runtime import Runtime
from unslow.facts.values import MIB, Fact, Known, estimated_fact, failed_fact, not_found, reported_fact
from unslow.look.command_line import COMMAND, Setting, with_secrets_hidden
from unslow.look.runtimes._given_settings import GivenSettings

_LONGEST = 500
_MOST_VALUES = 64
_NUMBER = re.compile(r"-?\d{1,9}(?:\.\d{1,9})?")
OLD, NEW = (1, 76), (1, 117)  # The versions whose defaults are known: what lies between them had the one or the other
_CACHE_TYPES = {"0": "f16", "1": "q8_0", "2": "q4_0"}
_NAMED_TYPES = ("f16", "bf16", "q8_0", "q5_1", "q4_0")


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


class GivenValue(NamedTuple):
    """A setting as it was written, and where."""

    values: tuple[str, ...]
    source: str

    @property
    def value(self) -> str:
        return self.values[0] if self.values else ""


Settings = Mapping[str, GivenValue]
NOT_GIVEN = GivenValue((), "")


class GivenFlag(NamedTuple):
    """A known flag on a command line: which, the words it takes up, and its values."""

    name: str
    start: int
    end: int
    values: tuple[str, ...]


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
    "usecpu": Flag(("--usecpu",), Takes.NOTHING, "true"),
    "device": Flag(("--device", "-dev")),
    "maingpu": Flag(("--maingpu", "--main-gpu", "-mg")),
    "tensor_split": Flag(("--tensor_split", "--tensorsplit", "--tensor-split", "-ts"), Takes.SEVERAL),
    "splitmode": Flag(("--splitmode", "--split-mode", "-sm")),
    "lowvram": Flag(("--lowvram", "-nkvo", "--no-kv-offload"), Takes.NOTHING, "true"),
    "moecpu": Flag(("--moecpu", "--n-cpu-moe", "-ncmoe"), Takes.PERHAPS, "999"),
    "overridetensors": Flag(("--overridetensors", "--override-tensor", "-ot")),
    "autofit": Flag(("--autofit", "--fit", "-fit"), Takes.NOTHING, "true"),
    "autofitpadding": Flag(("--autofitpadding",)),
    "usemmap": Flag(("--usemmap",), Takes.NOTHING, "true"),
    "nommap": Flag(("--nommap",), Takes.NOTHING, "true"),
    "usemlock": Flag(("--usemlock", "--mlock"), Takes.NOTHING, "true"),
    # context and caches
    "contextsize": Flag(("--contextsize", "--ctx-size", "-c")),
    "quantkv": Flag(("--quantkv",)),
    "flashattention": Flag(("--flashattention",), Takes.NOTHING, "true"),
    "noflashattention": Flag(("--noflashattention", "--no-flash-attn", "-nofa"), Takes.NOTHING, "true"),
    "nofastforward": Flag(("--nofastforward",), Takes.NOTHING, "true"),
    "noswa": Flag(("--noswa", "--swa-full"), Takes.NOTHING, "true"),
    "parallelrequests": Flag(("--parallelrequests", "--continuous-batching", "--contbatch")),
    # the work itself
    "threads": Flag(("--threads", "-t")),
    "blasthreads": Flag(("--blasthreads", "--batchthreads", "--threadsbatch", "--threads-batch")),
    "batchsize": Flag(("--blasbatchsize", "--batchsize", "--batch-size", "-b"), older_names=("blasbatchsize",)),
    "draftmodel": Flag(("--draftmodel", "--model-draft", "-md")),
    "draftamount": Flag(("--draftamount", "--draft-max", "--draft-n", "--spec-draft-n-max")),
    "usemtp": Flag(("--usemtp",), Takes.NOTHING, "true"),
    # secrets
    "password": Flag(("--password",)),
    "hordekey": Flag(("--hordekey",)),
    "prompt": Flag(("--prompt", "-p")),
}
SECRET = ("password", "hordekey", "prompt")
_BY_SPELLING = {word: name for name, flag in FLAGS.items() for word in flag.spellings}
_WORDS_AFTER = {"usecuda": ("all", "mmq", "nommq", "normal", "lowvram", "rowsplit")}
"""What may follow a flag besides numbers, so that it does not swallow the model's name."""


def parse_command(command: Sequence[str]) -> dict[str, GivenValue]:
    """The settings of a command line; a model and a port may stand there without a flag."""
    start = program_end(command)
    found, taken = {}, set[int]()
    for name, first, end, values in find_flags(command):
        found[name] = GivenValue(values, COMMAND if name in SECRET else f"{COMMAND}: {' '.join(command[first:end])}")
        taken.update(range(first, end))
    bare = [w for at, w in enumerate(command) if at >= start and at not in taken and not w.startswith("-")]
    for name, word in zip(("model_param", "port"), bare, strict=False):
        found.setdefault(name, GivenValue((word,), f"{COMMAND}: {word}"))
    return found


def program_end(command: Sequence[str]) -> int:
    """Where the arguments start: a script has its interpreter before it."""
    scripts = [at for at, word in enumerate(command[:8]) if word.endswith("koboldcpp.py")]
    return scripts[0] + 1 if scripts else 1


def find_flags(command: Sequence[str]) -> list[GivenFlag]:
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
        found.append(GivenFlag(name, at, end, values or (FLAGS[name].alone,)))
        at = end
    return found


def _following(name: str, command: Sequence[str], at: int) -> tuple[str, ...]:
    takes = FLAGS[name].takes

    def belongs(word: str) -> bool:
        any_word = takes is Takes.ONE or (name in ("model_param", "ssl") and not word.startswith("-"))
        return bool(_NUMBER.fullmatch(word)) or any_word or word in _WORDS_AFTER.get(name, ())

    most = {Takes.NOTHING: 0, Takes.SEVERAL: _MOST_VALUES}.get(takes, 1)
    return tuple(takewhile(belongs, command[at : at + most]))


def without_secrets(command: Sequence[str]) -> list[str]:
    """The command line as anybody may see it."""
    secrets = [(flag.start, flag.end) for flag in find_flags(command) if flag.name in SECRET]
    return with_secrets_hidden(command, secrets)


def parse_config(data: Any, source: str) -> dict[str, GivenValue]:
    """The settings of a `.kcpps` file, which holds every one of them, defaults too."""
    if not isinstance(data, Mapping):
        return {}
    found = {}
    for name, flag in FLAGS.items():
        values = next((v for key in (name, *flag.older_names) if (v := _values(data.get(key))) is not None), None)
        if values is not None:
            found[name] = GivenValue(values, f"{source}: {name}")
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


def requested_settings(given: Settings, version: str) -> Runtime:
    """Every setting that a command line or a file of settings decides."""
    first = {name: Setting(each.value, each.source) for name, each in given.items()}
    read = GivenSettings("KoboldCpp", FLAGS, first, complete=True)
    flash = _by_version(read, version, on="flashattention", off="noflashattention", old=False, new=True)
    kind = _cache_type(read)
    facts: dict[str, Any] = {
        **_placement(given, read),
        "flash_attention": flash,
        "load_mode": _load_mode(read, version),
        "threads": read.natural("threads"),
        "threads_batch": read.positive("blasthreads"),
        "batch": read.natural("batchsize", 512),
        "context_set": read.natural("contextsize"),
        "kv_type_k": kind,
        # without flash attention only the keys are kept quantised
        "kv_type_v": estimated_fact("f16", "without flash attention") if flash.value_or(None) is False else kind,
        "swa_full": read.truth("noswa", default=False),
        "prompt_cache": read.untruth("nofastforward", default=True),
        "slots": read.natural("parallelrequests", 1),
        "speculative": read.text("draftmodel"),
    }
    # by the model's own layers, or by a smaller model; without either, a number of tokens means nothing
    if _is_on(read, "usemtp"):
        facts["speculative"] = reported_fact("draft-mtp", given["usemtp"].source)
    if isinstance(facts["speculative"], Known):
        facts["draft_tokens"] = read.natural("draftamount", 4)
    return Runtime().with_facts(**facts)


def _placement(given: Settings, read: GivenSettings) -> dict[str, Fact[Any]]:
    margin, layers = read.natural("autofitpadding", 1024), read.natural("gpulayers")
    margin = Known(margin.value * MIB, margin.origin, margin.source) if isinstance(margin, Known) else margin
    fit = estimated_fact(value=True, source="default of KoboldCpp: it chooses the layers")
    if _is_on(read, "autofit"):
        fit = reported_fact(value=True, source=given["autofit"].source)
    elif isinstance(layers, Known):
        fit = reported_fact(value=False, source=layers.source)
    experts = read.natural("moecpu").value_or(0)
    overrides = [f"--n-cpu-moe {experts}"] if experts else []
    overrides += [given["overridetensors"].value] if "overridetensors" in given else []
    named = [given[name].source for name in ("moecpu", "overridetensors") if name in given]
    placed = named[0] if overrides else "command line: no --moecpu, no --overridetensors"
    facts: dict[str, Fact[Any]] = {
        "gpu_layers_set": layers,
        "fit": fit,
        "fit_margin_bytes": margin,
        "device_set": _device(given, read),
        "main_gpu": read.natural("maingpu"),
        "split_mode": read.text("splitmode", default="layer"),
        "tensor_split": read.missing("tensor_split"),
        "tensor_overrides": reported_fact(overrides, placed),
        "kv_offload": read.untruth("lowvram", default=True),
    }
    if "tensor_split" in given:
        shares, source = given["tensor_split"]
        sane = shares and all(re.fullmatch(r"\d{1,9}(\.\d{1,9})?", share) for share in shares)
        wrong = failed_fact(f"{source}: not a list of numbers")
        facts["tensor_split"] = reported_fact([float(share) for share in shares], source) if sane else wrong
    # words after --usecublas before they became flags
    words, source = given.get("usecuda", NOT_GIVEN)
    if "rowsplit" in words:
        facts["split_mode"] = reported_fact("row", source)
    if "lowvram" in words:
        facts["kv_offload"] = reported_fact(value=False, source=source)
    return facts


def _device(given: Settings, read: GivenSettings) -> Fact[str]:
    if _is_on(read, "usecpu"):
        return reported_fact("none", given["usecpu"].source)
    for name, backend in (("usecuda", "CUDA"), ("usevulkan", "Vulkan")) if "device" not in given else ():
        words, source = given.get(name, NOT_GIVEN)
        if ids := [word for word in words if word.isdecimal()]:
            return reported_fact(",".join(f"{backend}{number}" for number in ids), source)
    return read.text("device")


def _cache_type(read: GivenSettings) -> Fact[str]:
    kind = read.text("quantkv", default="f16")
    if not isinstance(kind, Known) or "quantkv" not in read.settings:
        return kind
    word = _CACHE_TYPES.get(kind.value, kind.value)
    known = word in _NAMED_TYPES
    return reported_fact(word, kind.source) if known else failed_fact(f"{kind.source}: unknown type")


def _load_mode(read: GivenSettings, version: str) -> Fact[str]:
    mapped = _by_version(read, version, on="usemmap", off="nommap", old=True, new=False)
    locked = _is_on(read, "usemlock")
    if not isinstance(mapped, Known):
        return mapped
    words = [word for word, is_on in (("mmap", mapped.value), ("mlock", locked)) if is_on]
    source = f"{mapped.source}, {read.settings['usemlock'].source}" if locked else mapped.source
    return Known("+".join(words) or "none", mapped.origin, source)


def _by_version(read: GivenSettings, version: str, *, on: str, off: str, old: bool, new: bool) -> Fact[bool]:
    for name, value in ((on, True), (off, False)):
        if _is_on(read, name):
            return reported_fact(value, read.settings[name].source)
    number = parse_version(version)
    if number >= NEW:
        return estimated_fact(new, f"default of KoboldCpp {version}")
    if number and number[:2] <= OLD:
        return estimated_fact(old, f"default of KoboldCpp {version}")
    return not_found(f"neither {FLAGS[on].spellings[0]} nor {FLAGS[off].spellings[0]} was given; versions differ")


def parse_version(version: str) -> tuple[int, ...]:
    """1.117.1 as numbers; empty where it is none."""
    found = re.match(r"(\d{1,4})\.(\d{1,6})(?:\.(\d{1,6}))?", version)
    return tuple(int(part) for part in found.groups() if part) if found else ()


def _is_on(read: GivenSettings, name: str) -> bool:
    return read.truth(name).value_or(default=False)
