"""Devices by the name that a driver reports: one TOML for each, found by presence."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from unslow.catalog import entries, entry, subfolders, texts
from unslow.catalog.device import Device, Result
from unslow.catalog.device_words import FORMS, MODELS, Written, in_brackets, parse_alternatives, parse_device_name
from unslow.facts.units import GIB, MIB

__all__ = ["Device", "Result", "all_devices", "all_gpus", "find_device", "named"]

_NEAR_SIZE = 1.12  # drivers report a little less than the label
_REMARK = re.compile(r"\([^()]*\)")
_SIZE = re.compile(r"([\d.]+)\s*([gm])")
_NAME, _KIND = (re.compile(rf'^{key} = "([^"\\]*)"$', re.MULTILINE) for key in ("name", "kind"))
_ALSO = re.compile(r"^also = \[([^\[\]\\#']*)\]$", re.MULTILINE)
_QUOTED = re.compile(r'"([^"]*)"')


class _Known(NamedTuple):
    """One name of a device, cut into words, with its form apart."""

    file: tuple[str, str]
    words: frozenset[str]
    models: frozenset[str]
    forms: frozenset[str]

    @property
    def device(self) -> Device:
        """The device, read when a name is near it: there are hundreds."""
        return _device(*self.file)


@cache
def all_devices() -> tuple[Device, ...]:
    """Every device of the catalogue."""
    return tuple(device for vendor in subfolders("devices") for _, device in entries(vendor, Device))


@cache
def _device(folder: str, stem: str) -> Device:
    return entry(_texts(folder)[stem], Device, f"{folder}/{stem}.toml")


@cache
def _texts(folder: str) -> dict[str, str]:
    return texts(folder)


@cache
def all_processors() -> tuple[Device, ...]:
    """Every processor; other files are not parsed, for each run asks for the processor of its machine."""
    stems = [(f, stem) for f in subfolders("devices") for stem, text in _texts(f).items() if _A_PROCESSOR in text]
    return tuple(_device(*file) for file in stems)


_A_PROCESSOR = 'kind = "cpu"'


@cache
def all_gpus() -> tuple[Device, ...]:
    """Every device that a graphics driver can name."""
    return tuple(d for d in all_devices() if d.kind in {"gpu", "unified"})


@lru_cache(maxsize=4096)
def find_device(name: str, memory_bytes: int = 0) -> Device | None:
    """The device that a driver's name means; memory settles between twins, and None where nothing does."""
    return _found(in_brackets(name), memory_bytes) or _found(name, memory_bytes)


def _found(name: str, memory_bytes: int) -> Device | None:
    """By a list of names, else by the name, else by the name without the remarks in it."""
    every = parse_alternatives(name) if "/" in name else []
    return (
        _settled([_best(one, memory_bytes) for one in every], memory_bytes)
        or _best(parse_device_name(name), memory_bytes)
        or _best(parse_device_name(_REMARK.sub(" ", name)), memory_bytes)
    )


def _fitting(written: Written) -> list[_Known]:
    """The names all of whose words were written, with no word beside them that makes another device of it."""
    models = written.words & MODELS
    index = _index()
    near = (known for word in written.words for known in index.get(word, ()))
    return [k for k in near if k.models == models and k.words <= written.words and _is_possible(k, written)]


def _is_possible(known: _Known, written: Written) -> bool:
    """Whether form and vendor allow it: one short word, such as M4, is a name of several vendors' chips."""
    if len(known.words) == 1 and written.vendors and known.device.vendor not in written.vendors:
        return False
    forms = written.words & FORMS
    return known.forms == forms or not known.forms or not forms


def _best(written: Written, memory_bytes: int) -> Device | None:
    """The device with the longest name that fits; None where several models share it."""
    fits = [(_likeness(known, written, memory_bytes), known.device) for known in _fitting(written)]
    longest = max((likeness.words for likeness, _ in fits), default=0)
    fits = sorted((fit for fit in fits if fit[0].words == longest), key=lambda fit: (fit[0], fit[1].name), reverse=True)
    if len({_model_of(device) for _, device in fits}) > 1:
        sizes = _sizes_said(written, memory_bytes)
        return _settled([device for _, device in fits], *sizes)
    return fits[0][1] if fits else None


def _settled(devices: Iterable[Device | None], *sizes: int) -> Device | None:
    """The only one of several models that has such a memory; any of them where all are equally fast."""
    models = list({d.name: d for d in devices if d}.values())
    fitting = [d for d in models if any(_is_near_size(size, own) for size in sizes for own in _sizes_of(d))] or models
    return fitting[0] if len({d.memory_bytes_per_s for d in fitting}) == 1 else None


class _Likeness(NamedTuple):
    """How well a name fits, the most important first."""

    words: int
    cores: int
    memory: bool
    form: bool
    usual: bool
    size: int


def _likeness(known: _Known, written: Written, memory_bytes: int) -> _Likeness:
    device = known.device
    sizes = _sizes_said(written, memory_bytes)
    cores = 0 if not (written.cores and device.units) else 1 if written.cores == device.units else -1
    return _Likeness(
        len(known.words),
        cores,
        any(_is_near_size(size, own) for size in sizes for own in _sizes_of(device)),
        bool(known.forms & written.words),
        device.usual,
        device.memory_bytes,
    )


def _sizes_said(written: Written, memory_bytes: int) -> list[int]:
    return [memory_bytes] if memory_bytes else [_parsed_bytes(size) for size in written.sizes]


def _model_of(device: Device) -> frozenset[str]:
    """What names the model, apart from its memory, its cores and its form."""
    return parse_device_name(device.name).words - FORMS


def _is_near_size(a: int, b: int) -> bool:
    """Whether two sizes may be the same memory, once as labelled and once as reported."""
    return 0 < max(a, b) <= _NEAR_SIZE * min(a, b)


def _parsed_bytes(size: str) -> int:
    """The bytes of a size such as 24gb or 8192 mb, as memory is sold."""
    match = _SIZE.match(size)
    return int(float(match[1]) * (GIB if match[2] == "g" else MIB)) if match else 0


def _sizes_of(device: Device) -> tuple[int, ...]:
    return tuple(size for size in (device.memory_bytes, device.driver_bytes, *device.memory_sizes_bytes) if size)


@cache
def _index() -> dict[str, list[_Known]]:
    """Every name by its rarest word."""
    names = [(file, parse_device_name(text).words) for file, every in named() for text in every]
    often = Counter(word for _, words in names for word in words)
    index: dict[str, list[_Known]] = {}
    for file, words in names:
        rarest = min(words - FORMS, key=lambda word: (often[word], word))
        index.setdefault(rarest, []).append(_Known(file, words - FORMS, words & MODELS, words & FORMS))
    return index


def named() -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    """Every file of a device that is no CPU, and its names."""
    for folder in subfolders("devices"):
        for stem, text in _texts(folder).items():
            kind, names = _names(text) or _parsed_names(_device(folder, stem))
            if kind != "cpu":
                yield (folder, stem), names


def _names(text: str) -> tuple[str, tuple[str, ...]] | None:
    """A device's kind and names without reading the rest; None where they are not written as usual."""
    name, kind, also = _NAME.search(text), _KIND.search(text), _ALSO.search(text)
    if not name or not kind or (also is None and "\nalso" in text):
        return None
    return kind[1], (name[1], *(_QUOTED.findall(also[1]) if also else ()))


def _parsed_names(device: Device) -> tuple[str, tuple[str, ...]]:
    return device.kind, (device.name, *device.also)
