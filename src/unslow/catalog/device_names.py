"""The device that a person means: glued or shortened names, with or without a size of memory, or several at once."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import NamedTuple

from unslow.catalog import entry
from unslow.catalog.devices import (
    FORMS,
    GRAPHICS,
    MODELS,
    SERIES,
    Device,
    all_gpus,
    all_processors,
    find_device,
    names_by_file,
    parse_device_name,
)

_LARGE_SERIES = frozenset({"rtx", "gtx", "rx"})
_NAMES_SHOWN = 8
_CLOSE = 0.7
_ALMOST = 0.79  # one letter too many or two changed places
_LONGEST = 32  # letters of a word that close ones are looked for
_NEAR_SIZE = 1.07  # 16 GB cards that report 15, and 180 that are sold as 192; 11 and 12 are two devices
_SOCKETS = 2  # of a host whose two memories count as one
_BESIDE = re.compile(r"\s\+\s|\s&\s|(?<!\s)\s+and\s+")


class DeviceMention(NamedTuple):
    """A device of a text, and how many of it."""

    device: Device
    how_many: int = 1


def find_written(text: str) -> Device | None:
    """The one kind of device that a text speaks of; None where it is unknown, or where they are several."""
    meant = devices_written(text)
    return meant[0].device if len(meant) == 1 else None


@lru_cache(maxsize=4096)
def devices_written(text: str) -> tuple[DeviceMention, ...]:
    """The devices of a text such as "2x RTX 3090" or "RTX 3060 Ti + RTX 3080 Ti"; none where one of them is unknown."""
    found = []
    for part in _BESIDE.split(text):
        written, device = parse_device_name(part), find_device(part)
        if device is None:
            short = devices_meant(written.words)
            device = short[0] if short and is_one_model(short) else find_cpu(part)
        if device is None:
            return ()
        found.append(DeviceMention(device, written.how_many))
    return tuple(found)


@lru_cache(maxsize=4096)
def find_cpu(text: str) -> Device | None:
    """The memory of a processor by its name, as in /proc/cpuinfo: that of the plainest and longest name in the text."""
    phrase = _phrase(text)
    found = [(plainness, len(match[0]), d) for d, plainness, p in _processors() for match in p.finditer(phrase)]
    return max(found, key=lambda fit: fit[:2])[2] if found else None


@cache
def _processors() -> list[tuple[Device, int, re.Pattern[str]]]:
    """Every processor's names as patterns, in which `?` is a letter and `*` any number of them."""
    hosts = [(d, _phrase(name)) for d in all_processors() for name in (d.name, *d.also)]
    return [
        (d, -sum(map(phrase.count, "?*")), re.compile(re.escape(phrase).replace(r"\*", "[^ ]*").replace(r"\?", "[^ ]")))
        for d, phrase in hosts
    ]


def _phrase(text: str) -> str:
    written = parse_device_name(text)
    return (" dual" if written.how_many == _SOCKETS else "") + written.phrase.replace(" cpu ", " ")


def devices_meant(words: frozenset[str]) -> list[Device]:
    """The devices that have all these words: the variants of one model where it is clear which one is meant."""
    if not _core(words):
        return []
    fitting = [
        (device, _core(known))
        for file, (name, *_) in names_by_file()  # hundreds, of which only those are parsed whose names fit
        if words <= (known := parse_device_name(name).words) and (device := entry(*file, Device)).kind in GRAPHICS
    ]
    exact = [(d, core) for d, core in fitting if core == _core(words)]
    choice = exact or fitting
    plainest = [d for d, core in choice if all(core <= other for _, other in choice)]
    return plainest or [d for d, _ in choice]


def is_one_model(devices: Iterable[Device]) -> bool:
    """Whether devices differ in nothing but their memory, their cores and their form."""
    return len({_core(parse_device_name(d.name).words) for d in devices}) == 1


def near_devices(words: frozenset[str]) -> list[Device]:
    """Devices of the same number, else of one that begins or looks like it, else of the same kind."""
    known = [(d, parse_device_name(d.name).words) for d in all_gpus()]
    numbers = {w for w in words if _is_number(w)}
    all_numbers = sorted({word for _, ws in known for word in ws if _is_number(word)})
    longer = {n for n in all_numbers if n.startswith(tuple(numbers))}
    alike = {n for w in numbers for n in get_close_matches(w[:_LONGEST], all_numbers, 3, _CLOSE)}
    for wanted in (numbers, longer, alike, words - MODELS - FORMS - _LARGE_SERIES - numbers):
        if found := [(d, ws) for d, ws in known if ws & wanted]:
            ranked = sorted(found, key=lambda pair: (-len(pair[1] & words), len(pair[1])))
            return [d for d, _ in ranked[:_NAMES_SHOWN]]
    return []


def misspelt(text: str, device: Device) -> str:
    """A word of a text that looks like one that makes another device, as "Tii" in "RTX 3090 Tii"; empty where none."""
    known = MODELS | {word for name in (device.name, *device.also) for word in parse_device_name(name).words}
    others = sorted(word for word in parse_device_name(text).words - known if not _is_number(word))
    return next((word for word in others if get_close_matches(word[:_LONGEST], MODELS, 1, _ALMOST)), "")


def is_near_size(a: int, b: int) -> bool:
    """Whether two sizes may be the same memory, once as labelled and once as reported."""
    return max(a, b) <= _NEAR_SIZE * min(a, b)


def _core(words: frozenset[str]) -> frozenset[str]:
    return words - SERIES - FORMS


def _is_number(word: str) -> bool:
    return len(word) > 1 and any(letter.isdigit() for letter in word)
