"""What KoboldCpp was told, as facts; what nobody said has the default of the version that runs."""

import re
from collections.abc import Mapping
from typing import Any

from unslow.facts.runtime import Runtime
from unslow.facts.units import MIB
from unslow.facts.values import Fact, Known, estimated, failed, not_found, reported
from unslow.look.runtimes.koboldcpp.flags import FLAGS, Given

OLD, NEW = (1, 76), (1, 117)
"""The versions whose defaults are known: what lies between them had the one or the other."""
_MOST_DIGITS = 9
_CACHE_TYPES = {"0": "f16", "1": "q8_0", "2": "q4_0"}
_NAMED_TYPES = ("f16", "bf16", "q8_0", "q5_1", "q4_0")

Settings = Mapping[str, Given]


def told(given: Settings, version: str) -> Runtime:
    """Every setting that a command line or a file of settings decides."""
    flash = _by_version(given, version, on="flashattention", off="noflashattention", old=False, new=True)
    facts: dict[str, Any] = {**_placement(given), **_caches(given, flash), **_work(given)}
    return Runtime(flash_attention=flash, load_mode=_load_mode(given, version), **facts)


def _placement(given: Settings) -> dict[str, Fact[Any]]:
    words = given["usecuda"].values if "usecuda" in given else ()
    return {
        "gpu_layers_set": _count(given, "gpulayers"),
        "fit": _fit(given),
        "fit_margin_bytes": _mebibytes(_count(given, "autofitpadding", 1024)),
        "device_set": _device(given),
        "main_gpu": _count(given, "maingpu"),
        "split_mode": reported("row", given["usecuda"].source)
        if "rowsplit" in words
        else _text(given, "splitmode", "layer"),
        "tensor_split": _shares(given),
        "tensor_overrides": _overrides(given),
        # one of the words after --usecublas before it became a flag
        "kv_offload": reported(value=False, source=given["usecuda"].source)
        if "lowvram" in words
        else _switch(given, "lowvram", on=False),
    }


def _caches(given: Settings, flash: Fact[bool]) -> dict[str, Fact[Any]]:
    """Without flash attention only the keys are kept quantised."""
    kind = _cache_type(given)
    return {
        "context_set": _count(given, "contextsize"),
        "kv_type_k": kind,
        "kv_type_v": estimated("f16", "without flash attention") if flash.value_or(None) is False else kind,
        "swa_full": _switch(given, "noswa", on=True),
        "prompt_cache": _switch(given, "nofastforward", on=False),
        "slots": _count(given, "parallelrequests", 1),
    }


def _work(given: Settings) -> dict[str, Fact[Any]]:
    return {
        "threads": _count(given, "threads"),
        "threads_batch": _count(given, "blasthreads", positive=True),
        "batch": _count(given, "batchsize", 512),
        **_drafting(given),
    }


def _drafting(given: Settings) -> dict[str, Fact[Any]]:
    """By the model's own layers, or by a smaller model; without either, a number of tokens means nothing."""
    tokens = _count(given, "draftamount", 4)
    if _is_on(given, "usemtp"):
        return {"speculative": reported("draft-mtp", given["usemtp"].source), "draft_tokens": tokens}
    if "draftmodel" in given:
        return {"speculative": reported(given["draftmodel"].value, given["draftmodel"].source), "draft_tokens": tokens}
    return {"speculative": _missing("draftmodel")}


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
        return reported(given["device"].value, given["device"].source)
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
    """A switch whose default has changed."""
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


def _mebibytes(fact: Fact[int]) -> Fact[int]:
    return Known(fact.value * MIB, fact.origin, fact.source) if isinstance(fact, Known) else fact


def _text(given: Settings, name: str, default: str) -> Fact[str]:
    return reported(given[name].value, given[name].source) if name in given else _missing(name, default)


def _switch(given: Settings, name: str, *, on: bool) -> Fact[bool]:
    """What a switch means when it is on; the opposite holds without it."""
    return reported(on, given[name].source) if _is_on(given, name) else _missing(name, not on)


def _is_on(given: Settings, name: str) -> bool:
    return name in given and given[name].value == "true"


def _missing(name: str, default: Any = None) -> Fact[Any]:
    if default is not None:
        return estimated(default, _default(name))
    return not_found(f"{FLAGS[name].spellings[0]} was not given")


def _default(name: str) -> str:
    return f"default of KoboldCpp: no {FLAGS[name].spellings[0]}"
