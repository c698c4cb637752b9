"""The devices that a text speaks of, how many of them, and with which memory."""

import re
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from unslow.catalog.device_names import devices_meant, is_near_size, is_one_model, parse_device_name
from unslow.catalog.devices import Device, all_devices
from unslow.facts.units import GIB, MIB
from unslow.think.claims.amounts import Amount

MOST_DEVICES = 4096
_WORD = re.compile(r"\d{1,3}x(?=[a-z]{1,4}\d|\d{4})|[a-z0-9]+(?:\.\d+)?")
_PLURAL = re.compile(r"(?<=\d)s$")
_NUMBERS = {"two": 2, "dual": 2, "pair": 2, "three": 3, "triple": 3, "four": 4, "quad": 4, "six": 6, "eight": 8}
_WORDS = "|".join(_NUMBERS)
_BEFORE = re.compile(
    rf"(?:(?P<n>\d{{1,3}})\s?x\s?|(?P<word>{_WORDS})(?:\sof)?\s(?:\w+\s)?|(?<![\w.,])(?P<bare>\d{{1,2}})\s)$"
)
_AFTER = re.compile(r"\s?\(?x\s?(\d{1,3})\b")
_EITHER = re.compile(r"\s?(?:/|or|, or)\s?(?:an? |the )?")
_END_OF_NAME = re.compile(r"[;.:!?,](?=\s)|\(|\s\+|\b(?:with|and|plus|on|at)\b")
_UNIT_AFTER = re.compile(r"\s?(?:tok|tps|t/s|ctx|context|mhz|mb|gb|ms|w\b|watts|cells|layers|users|\$|usd|%)")
_DDR = re.compile(r"(?:lp)?ddr")
_MOST_WORDS = 6
_SHORT = 3
_FAR = 20
_MAKERS = frozenset(
    {"nvidia", "geforce", "radeon", "amd", "apple", "tesla", "quadro", "intel", "macbook", "mac", "imac", "mobile"}
)


class DeviceSaid(NamedTuple):
    """A device as a text has it: its variants, how many there are, and the memory that is named with it."""

    label: str
    devices: tuple[Device, ...]
    number: int
    memory_bytes: int
    start: int
    end: int
    counted: bool = False
    """Whether the text says how many."""
    is_class: bool = False
    """Whether it is any device with that memory, or any at all."""


class _Word(NamedTuple):
    text: str
    start: int
    end: int


def devices_named(text: str, original: str, taken: list[Amount]) -> list[DeviceSaid]:
    """Every device of a plain text by its name, in order; numbers that are amounts of something are none."""
    words = [_Word(_PLURAL.sub("", m[0]), m.start(), m.end()) for m in _WORD.finditer(text)]
    found: list[DeviceSaid] = []
    at = 0
    while at < len(words):
        said = _named(text, original, words[at : at + _MOST_WORDS], taken)
        if said:
            found.append(said)
            at = next((n for n, word in enumerate(words) if word.start >= said.end), len(words))
        else:
            at += 1
    return _merged(text, found)


def _named(text: str, original: str, words: list[_Word], taken: list[Amount]) -> DeviceSaid | None:
    """The longest name that begins with the first of the words."""
    start = words[0].start
    if words[0].text not in _vocabulary():
        return None
    for last in range(len(words), 0, -1):
        window, end = [word.text for word in words[:last]], words[last - 1].end
        overlaps = any(a.start < end and start < a.end and a.kind != "size" for a in taken)
        ends = last > 1 and _END_OF_NAME.search(text[start:end])
        if overlaps or ends or any(_DDR.match(word) for word in window):
            continue
        if found := _meant(" ".join(window)):
            sure = _is_sure(window, original[start:end], text[end:]) and text[max(0, start - 1) : start] not in {
                "-",
                ".",
            }
            return _said(text, found, (start, end), " ".join(window)) if sure else None
    return None


@lru_cache(maxsize=4096)
def _meant(name: str) -> tuple[Device, ...]:
    written = parse_device_name(name)
    last = name.rsplit(" ", 1)[-1]
    if not written.words or (last not in _vocabulary() and not re.fullmatch(r"\d*gi?b?", last)):
        return ()
    found = devices_meant(written.words)
    return tuple(found) if found and is_one_model(found) else ()


def _is_sure(window: list[str], original: str, after: str) -> bool:
    """Whether a bare number or two letters mean a device: not where a unit follows, nor in small letters."""
    if len(window) > 1:
        return True
    word = window[0]
    if word.isdigit():
        return len(word) > _SHORT and not _UNIT_AFTER.match(after) and "," not in original
    return len(word) > _SHORT or original.removesuffix("s").isupper()


def _said(text: str, found: tuple[Device, ...], span: tuple[int, int], name: str) -> DeviceSaid:
    sizes = parse_device_name(name).sizes
    memory = _bytes(sizes[0]) if sizes else 0
    if memory:
        found = tuple(d for d in found if any(is_near_size(size, memory) for size in _sizes(d))) or found
    number = number_of(text, *span)
    label = re.sub(r" \d+GB$", "", min(found, key=usual_first).name)
    return DeviceSaid(label, found, number or 1, memory, *span, counted=bool(number))


def usual_first(device: Device) -> tuple[bool, bool, int]:
    """The order of variants that a name without a form or a size may mean; drivers leave out SXM."""
    return not device.usual, "SXM" not in device.name, len(device.name)


def number_of(text: str, start: int, end: int) -> int:
    """How many of what stands there are meant; 0 where nothing says so."""
    before, after = _BEFORE.search(text[max(0, start - _FAR) : start]), _AFTER.match(text, end)
    if before:
        number = _NUMBERS.get(before["word"] or "", 0) or int(before["n"] or before["bare"] or 1)
    else:
        number = int(after[1]) if after else 0
    return min(number, MOST_DEVICES)


def _sizes(device: Device) -> tuple[int, ...]:
    return tuple(size for size in (device.memory_bytes, device.driver_bytes, *device.memory_sizes_bytes) if size)


def _bytes(text: str) -> int:
    match = re.match(r"(\d+(?:\.\d+)?)\s*([gm])", text)
    return int(float(match[1]) * (GIB if match[2] == "g" else MIB)) if match else 0


def _merged(text: str, found: list[DeviceSaid]) -> list[DeviceSaid]:
    """`RTX 3090/4090` is either of them: one entry with the variants of both."""
    merged: list[DeviceSaid] = []
    for said in found:
        last = merged[-1] if merged else None
        if last and not last.counted and not said.counted and _EITHER.fullmatch(text[last.end : said.start]):
            label, both = f"{last.label} or {said.label}", last.devices + said.devices
            merged[-1] = last._replace(label=label, devices=both, end=said.end)
        else:
            merged.append(said)
    return merged


@cache
def _vocabulary() -> frozenset[str]:
    """The words that names of devices consist of, together and glued."""
    names = [re.findall(r"[a-z0-9]+", d.name.lower()) for d in all_devices() if d.kind in {"gpu", "unified"}]
    known = {word for words in names for word in words}
    glued = {one + two for words in names for one, two in pairwise(words)}
    return frozenset((known | glued | _MAKERS) - {"gb", "core", "graphics", "to", "of", "with"})
