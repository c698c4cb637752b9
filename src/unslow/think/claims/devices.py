"""The devices and hosts that a text speaks of, and the memory, bandwidth and arithmetic that they have."""

import math
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from unslow.catalog.device_names import devices_meant, is_near_size, is_one_model
from unslow.catalog.devices import Device, all_devices, all_gpus, parse_device_name
from unslow.facts.values import GB, GIB, MIB
from unslow.think.claims.amounts import Amount, any_phrase

MOST_DEVICES = 4096
_WORD = re.compile(r"\d{1,3}x(?=[a-z]{1,4}\d|\d{4})|[a-z0-9]+(?:\.\d+)?")
_PLURAL = re.compile(r"(?<=\d)s$")
NUMBERS = {"two": 2, "dual": 2, "pair": 2, "three": 3, "triple": 3, "four": 4, "quad": 4, "six": 6, "eight": 8}
_WORDS = "|".join(NUMBERS)
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
    counted: bool = False  # Whether the text says how many
    is_class: bool = False  # Whether it is any device with that memory, or any at all


def devices_named(text: str, original: str, taken: list[Amount]) -> list[DeviceSaid]:
    """Every device of a plain text by its name, in order; numbers that are amounts of something are none."""
    words = list(_WORD.finditer(text))
    found: list[DeviceSaid] = []
    for at, word in enumerate(words):
        last = found[-1] if found else None
        begins = not last or word.start() >= last.end
        said = _device_named_at(text, original, words[at : at + _MOST_WORDS], taken) if begins else None
        if said is None:
            continue
        if last and not last.counted and not said.counted and _EITHER.fullmatch(text[last.end : said.start]):
            # `RTX 3090/4090` is either of them: one entry with the variants of both
            label, both = f"{last.label} or {said.label}", last.devices + said.devices
            found[-1] = last._replace(label=label, devices=both, end=said.end)
        else:
            found.append(said)
    return found


def _device_named_at(text: str, original: str, words: list[re.Match[str]], taken: list[Amount]) -> DeviceSaid | None:
    start, singular = words[0].start(), [_PLURAL.sub("", word[0]) for word in words]
    if singular[0] not in _vocabulary():
        return None
    for last in range(len(words), 0, -1):
        window, end = singular[:last], words[last - 1].end()
        overlaps = any(a.start < end and start < a.end and a.kind != "size" for a in taken)
        ends = last > 1 and _END_OF_NAME.search(text[start:end])
        if overlaps or ends or any(_DDR.match(word) for word in window):
            continue
        if found := _devices_by_name(" ".join(window)):
            glued = text[max(0, start - 1) : start] in {"-", "."}
            sure = not glued and _is_sure(window, original[start:end], text[end:])
            return _device_said(text, found, (start, end), " ".join(window)) if sure else None
    return None


@lru_cache(maxsize=4096)
def _devices_by_name(name: str) -> tuple[Device, ...]:
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


def _device_said(text: str, found: tuple[Device, ...], span: tuple[int, int], name: str) -> DeviceSaid:
    sizes = parse_device_name(name).sizes
    size = re.match(r"(\d+(?:\.\d+)?)\s*([gm])", sizes[0]) if sizes else None
    memory = int(float(size[1]) * (GIB if size[2] == "g" else MIB)) if size else 0
    if memory:
        sold = [(d, (d.memory_bytes, d.driver_bytes, *d.memory_sizes_bytes)) for d in found]
        found = tuple(d for d, sizes in sold if any(s and is_near_size(s, memory) for s in sizes)) or found
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
        number = NUMBERS.get(before["word"] or "", 0) or int(before["n"] or before["bare"] or 1)
    else:
        number = int(after[1]) if after else 0
    return min(number, MOST_DEVICES)


@cache
def _vocabulary() -> frozenset[str]:
    names = [re.findall(r"[a-z0-9]+", d.name.lower()) for d in all_gpus()]
    known = {word for words in names for word in words}
    glued = {one + two for words in names for one, two in pairwise(words)}
    return frozenset((known | glued | _MAKERS) - {"gb", "core", "graphics", "to", "of", "with"})


_CARD = re.compile(
    r"(?P<n>\d{1,3}x |two |dual |both |a pair of )?"
    r"\b(?P<size>\d{1,3})[\s-]?gi?b[\s-](?:\w+[\s-]){0,2}?(?:cards?|gpus?)\b"
)
_ANY = any_phrase(r"(?:modern|any|good|consumer|current)\s(?:\w+\s)?gpu")
_MAKERS_OF_MUCH_ELSE = frozenset({"Google", "Intel"})


def devices_said(text: str, original: str, taken: list[Amount]) -> list[DeviceSaid]:
    """Every device of a plain text, in order; kinds of devices only where none is named."""
    found = devices_named(text, original, taken)
    found += [chip for chip in _chips(text) if not any(d.start <= chip.start < d.end for d in found)]
    return sorted(found or _kinds(text), key=lambda device: device.start)


def _chips(text: str) -> Iterator[DeviceSaid]:
    """Chips for inference, by the name of their maker or family, and their version where it is named."""
    for first, chips in _by_maker().items():
        match = re.search(rf"\b{re.escape(first)}\b", text)
        if match:
            chosen = tuple(c for c in chips if re.search(rf"\b{re.escape(c.name.lower().split()[-1])}\b", text))
            chosen = chosen or tuple(chips)
            end = match.end()
            for word in chosen[0].name.lower().split()[1:]:
                following = re.match(rf"[\s-]?{re.escape(word)}\b", text[end:])
                end += following.end() if following else 0
            number = number_of(text, match.start(), end)
            yield DeviceSaid(chosen[0].name, chosen, number or 1, 0, match.start(), end, counted=bool(number))


@cache
def _by_maker() -> dict[str, list[Device]]:
    found: dict[str, list[Device]] = {}
    for chip in (d for d in all_devices() if d.kind == "asic"):
        first, *others = chip.name.lower().split()
        much_else = first == chip.vendor.lower() and chip.vendor in _MAKERS_OF_MUCH_ELSE
        found.setdefault(others[0] if much_else else first, []).append(chip)
    return found


def _kinds(text: str) -> list[DeviceSaid]:
    """`a 24 GB card` is any card with that memory; `a modern GPU` is any at all."""
    cards = tuple(d for d in all_devices() if d.kind == "gpu")
    found = []
    for match in _CARD.finditer(text):
        size = int(match["size"]) * GIB
        number = int(re.sub(r"\D", "", match["n"]) or 2) if match["n"] else 1
        label = f"{match['size']} GB card" if number == 1 else f"{number} x {match['size']} GB"
        if fitting := tuple(d for d in cards if d.memory_bytes and is_near_size(d.memory_bytes, size)):
            found.append(DeviceSaid(label, fitting, number, size, *match.span(), counted=number > 1, is_class=True))
    any_gpu = _ANY.search(text)
    if found or not any_gpu:
        return found
    return [DeviceSaid("some GPU", cards, 1, 0, any_gpu.start(), any_gpu.end(), is_class=True)]


_DDR_OF_HOST = re.compile(r"\b(?:lp)?ddr([345])x?[- ](\d{4,5})\b")
_CHANNELS = re.compile(r"\b(\d{1,2})[ -]?(?:channels?|ch)\b|\b(single|dual|quad|octa)[ -]channel")
_CHANNEL_WORDS = {"single": 1, "dual": 2, "quad": 4, "octa": 8}
ON_CPU = any_phrase(
    "cpu[ -]only", r"(?:on|with|using|by) (?:a |an |the |my )?(?:\w+[ -]){0,3}?cpu", "no gpu",
    "without (?:a )?gpu", "ryzen", "core (?:ultra|i[3579])", r"i[3579]-\d{4,5}\w*", r"ddr[345]\w*",
)  # fmt: skip
_BYTES_A_TRANSFER = 8
DESKTOP_MOST_BYTES = 256 * GIB  # Four modules of 64 GiB; a model that asks for more runs on a server
DESKTOP_MOST_DEVICES = 3


class Host(NamedTuple):
    """A host's memory."""

    label: str
    bytes_per_s: float
    device: Device | None = None  # The processors of the catalog, where a text names them


DESKTOP = Host("a desktop's memory", 128 * GB)  # Two channels of DDR5-8000: quicker than what most desktops run
DISK = Host("a disk", 15.8 * GB)
"""The quickest drive, four lanes of PCIe 5.0 (4 x 32 GT/s with 128 of 130 bits): what a memory that is the host's too
can't hold comes from there at every token."""


def host_said(text: str) -> Host | None:
    """The host that a plain text names: by its DDR, or by its processor."""
    if ddr := _DDR_OF_HOST.search(text):
        channels = _CHANNELS.search(text)
        number = (int(channels[1] or 0) or _CHANNEL_WORDS[channels[2]]) if channels else 2
        rate = number * _BYTES_A_TRANSFER * int(ddr[2]) * 1e6
        return Host(f"{number} channels of {ddr[0].upper().replace(' ', '-')}", rate)
    best: Device | None = None
    for device in _cpus():
        # Processors are known by one word: epyc, threadripper, xeon; bare memory by none that a text has
        word = device.name.lower().removeprefix("cpu ").removeprefix("2x ").partition(" ")[0]
        if not _DDR.match(word) and re.search(rf"\b{re.escape(word)}\b", text):
            best = max(best or device, device, key=lambda d: d.memory_bytes_per_s)
    return Host(best.name.removeprefix("CPU "), best.memory_bytes_per_s, best) if best else None


def host_for(spilled_bytes: float, devices: int, said: Host | None) -> Host:
    """The named host, else the ordinary one that could hold so much and so many devices: a desktop, or a server."""
    if said or (spilled_bytes <= DESKTOP_MOST_BYTES and devices <= DESKTOP_MOST_DEVICES):
        return said or DESKTOP
    best = max(_cpus(), key=lambda d: d.memory_bytes_per_s)
    return Host(best.name.removeprefix("CPU "), best.memory_bytes_per_s)


def _cpus() -> list[Device]:
    return [d for d in all_devices() if d.kind == "cpu" and d.memory_bytes_per_s]


BOOST = 1.03  # How far a memory clock may lie above the datasheet's: what is beyond that too is impossible


class Place(NamedTuple):
    """Devices of one kind, all together."""

    label: str
    bytes_per_s: float  # 0 where no memory is read, because the weights are wired in
    capacity_bytes: float = 0.0  # 0 where it is not known
    operations_per_s: float = 0.0  # The most products and sums, in 8 bits; 0 where it is not known
    cache_bytes: float = 0.0
    device: Device | None = None
    number: int = 1

    def for_model(self, weights_bytes: float) -> "Place":
        """The same; of chips with little memory each, as many as hold the model."""
        chip = self.device
        if not chip or chip.kind != "asic" or not chip.memory_bytes or self.capacity_bytes >= weights_bytes:
            return self
        return _several_devices(chip, math.ceil(weights_bytes / chip.memory_bytes), 0)


def places(said: DeviceSaid) -> list[Place]:
    """Each device that may be meant, as often as is said, the usual one first; of those that are alike, one."""
    alike: dict[tuple[float, int], Device] = {}
    for device in sorted(said.devices, key=usual_first):
        alike.setdefault((device.memory_bytes_per_s, device.memory_bytes), device)
    return [_several_devices(device, said.number, said.memory_bytes) for device in alike.values()]


def _several_devices(device: Device, number: int, memory_bytes: int) -> Place:
    """The memory that is named, else the most that the device is sold with."""
    each = memory_bytes or max(device.memory_bytes, *device.memory_sizes_bytes, 0)
    best = max(device.fp16_flops_per_s * 2, device.int8_ops_per_s)
    return Place(
        label=f"{number}x {device.name}" if number > 1 else device.name,
        bytes_per_s=device.memory_bytes_per_s * number,
        capacity_bytes=each * number,
        operations_per_s=best * number,
        cache_bytes=device.l2_bytes * number,
        device=device,
        number=number,
    )
