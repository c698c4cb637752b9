"""How KoboldCpp spells each setting, old and new, and what it was told or does by default, as facts.

As in koboldcpp.py 1.76 and 1.117.1.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from unslow.facts.runtime import Runtime
from unslow.facts.values import MIB, Fact, Known, estimated_fact, failed_fact, not_found, reported_fact
from unslow.look.command_line import COMMAND, NOT_A_FLAG, UNSET, Flag, Flags, Setting, switch
from unslow.look.runtimes._given_settings import GivenSettings

_LONGEST = 500
_MOST_VALUES = 64
_NUMBER = r"-?\d{1,9}(?:\.\d{1,9})?"
OLD, NEW = (1, 76), (1, 117)  # The versions whose defaults are known: what lies between them had the one or the other
_CACHE_TYPES = {"0": "f16", "1": "q8_0", "2": "q4_0"}
_NAMED_TYPES = ("f16", "bf16", "q8_0", "q5_1", "q4_0")


def _several(*spellings: str, words: str = "") -> Flag:
    """A flag that numbers and words of this pattern may follow: no others, so that the model's name is not taken."""
    return Flag(spellings, least=0, most=_MOST_VALUES, further=f"{words}|{_NUMBER}" if words else _NUMBER)


_FLAGS = {
    "model_param": _several("--model", "-m", words=NOT_A_FLAG),
    "config": Flag(("--config",)),
    "host": Flag(("--host",)),
    "port": Flag(("--port",)),
    "ssl": _several("--ssl", words=NOT_A_FLAG),
    # where the model goes
    "gpulayers": Flag(("--gpulayers", "--gpu-layers", "--n-gpu-layers", "-ngl"), least=0, further=_NUMBER, alone="1"),
    "usecuda": _several("--usecublas", "--usecuda", "--usehipblas", words="all|mmq|nommq|normal|lowvram|rowsplit"),
    "usevulkan": _several("--usevulkan"),
    "useclblast": _several("--useclblast"),
    "usecpu": switch("--usecpu"),
    "device": Flag(("--device", "-dev")),
    "maingpu": Flag(("--maingpu", "--main-gpu", "-mg")),
    "tensor_split": _several("--tensor_split", "--tensorsplit", "--tensor-split", "-ts"),
    "splitmode": Flag(("--splitmode", "--split-mode", "-sm")),
    "lowvram": switch("--lowvram", "-nkvo", "--no-kv-offload"),
    "moecpu": Flag(("--moecpu", "--n-cpu-moe", "-ncmoe"), least=0, further=_NUMBER, alone="999"),
    "overridetensors": Flag(("--overridetensors", "--override-tensor", "-ot")),
    "autofit": switch("--autofit", "--fit", "-fit"),
    "autofitpadding": Flag(("--autofitpadding",)),
    "usemmap": switch("--usemmap"),
    "nommap": switch("--nommap"),
    "usemlock": switch("--usemlock", "--mlock"),
    # context and caches
    "contextsize": Flag(("--contextsize", "--ctx-size", "-c")),
    "quantkv": Flag(("--quantkv",)),
    "flashattention": switch("--flashattention"),
    "noflashattention": switch("--noflashattention", "--no-flash-attn", "-nofa"),
    "nofastforward": switch("--nofastforward"),
    "noswa": switch("--noswa", "--swa-full"),
    "parallelrequests": Flag(("--parallelrequests", "--continuous-batching", "--contbatch")),
    # the work itself
    "threads": Flag(("--threads", "-t")),
    "blasthreads": Flag(("--blasthreads", "--batchthreads", "--threadsbatch", "--threads-batch")),
    "batchsize": Flag(("--blasbatchsize", "--batchsize", "--batch-size", "-b")),
    "draftmodel": Flag(("--draftmodel", "--model-draft", "-md")),
    "draftamount": Flag(("--draftamount", "--draft-max", "--draft-n", "--spec-draft-n-max")),
    "usemtp": switch("--usemtp"),
    # secrets
    "password": Flag(("--password",), secret=True),
    "hordekey": Flag(("--hordekey",), secret=True),
    "prompt": Flag(("--prompt", "-p"), secret=True),
}
FLAGS = Flags(_FLAGS, script="koboldcpp.py")
find_flags, without_secrets = FLAGS.find_flags, FLAGS.without_secrets
_OLDER_NAMES = {"model_param": "model", "port": "port_param", "usecuda": "usecublas", "batchsize": "blasbatchsize"}
"""How older files of settings name them."""


def parse_command(command: Sequence[str]) -> dict[str, Setting]:
    """The settings of a command line; a model and a port may stand there without a flag."""
    found, left = {}, set(range(FLAGS.start_of(command), len(command)))
    for name, start, end, (value, *more) in find_flags(command):
        source = COMMAND if FLAGS[name].secret else f"{COMMAND}: {' '.join(command[start:end])}"
        found[name] = Setting(value, source, tuple(more))
        left -= set(range(start, end))
    bare = [command[at] for at in sorted(left) if not command[at].startswith("-")]
    for name, word in zip(("model_param", "port"), bare, strict=False):
        found.setdefault(name, Setting(word, f"{COMMAND}: {word}"))
    return found


def parse_config(data: Any, source: str) -> dict[str, Setting]:
    """The settings of a `.kcpps` file, which holds every one of them, defaults too."""
    if not isinstance(data, Mapping):
        return {}
    found = {}
    for name in FLAGS:
        keys = (name, _OLDER_NAMES.get(name, name))
        if values := next((v for key in keys if (v := _values(data.get(key))) is not None), None):
            found[name] = Setting(values[0], f"{source}: {name}", values[1:])
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
            parts = [str(part)[:_LONGEST] for part in value[:_MOST_VALUES] if isinstance(part, str | int | float)]
            return tuple(parts or [""])
        case _:
            return None


def requested_settings(given: Mapping[str, Setting], version: str) -> Runtime:
    """Every setting that a command line or a file of settings decides."""
    read = GivenSettings("KoboldCpp", FLAGS, given, complete=True)
    flash = _by_version(read, version, on="flashattention", off="noflashattention", old=False, new=True)
    kind = read.text("quantkv", default="f16")
    if isinstance(kind, Known) and "quantkv" in given:
        word = _CACHE_TYPES.get(kind.value, kind.value)
        unknown = failed_fact(f"{kind.source}: unknown type")
        kind = reported_fact(word, kind.source) if word in _NAMED_TYPES else unknown
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


def _placement(given: Mapping[str, Setting], read: GivenSettings) -> dict[str, Fact[Any]]:
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
        shares, source = given["tensor_split"].values, given["tensor_split"].source
        sane = all(re.fullmatch(r"\d{1,9}(\.\d{1,9})?", share) for share in shares)
        wrong = failed_fact(f"{source}: not a list of numbers")
        facts["tensor_split"] = reported_fact([float(share) for share in shares], source) if sane else wrong
    # words after --usecublas before they became flags
    cuda = given.get("usecuda", UNSET)
    if "rowsplit" in cuda.values:
        facts["split_mode"] = reported_fact("row", cuda.source)
    if "lowvram" in cuda.values:
        facts["kv_offload"] = reported_fact(value=False, source=cuda.source)
    return facts


def _device(given: Mapping[str, Setting], read: GivenSettings) -> Fact[str]:
    if _is_on(read, "usecpu"):
        return reported_fact("none", given["usecpu"].source)
    for name, backend in (("usecuda", "CUDA"), ("usevulkan", "Vulkan")) if "device" not in given else ():
        setting = given.get(name, UNSET)
        if ids := [word for word in setting.values if word.isdecimal()]:
            return reported_fact(",".join(f"{backend}{number}" for number in ids), setting.source)
    return read.text("device")


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
    found = re.match(r"(\d{1,4})\.(\d{1,6})(?:\.(\d{1,6}))?", version)
    number = tuple(int(part) for part in found.groups() if part) if found else ()
    if number >= NEW:
        return estimated_fact(new, f"default of KoboldCpp {version}")
    if number and number[:2] <= OLD:
        return estimated_fact(old, f"default of KoboldCpp {version}")
    return not_found(f"neither {FLAGS[on].spellings[0]} nor {FLAGS[off].spellings[0]} was given; versions differ")


def _is_on(read: GivenSettings, name: str) -> bool:
    return read.truth(name).value_or(default=False)
