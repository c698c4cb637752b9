"""Devices that a text speaks of without a driver's name: chips for inference, and any card of a size."""

import re
from collections.abc import Iterator
from functools import cache

from unslow.catalog.device_names import is_near_size
from unslow.catalog.devices import Device, all_devices
from unslow.facts.units import GIB
from unslow.think.claims.amounts import Amount
from unslow.think.claims.devices_in_text import DeviceSaid, devices_named, number_of
from unslow.think.claims.phrases import any_of

_CARD = re.compile(
    r"(?P<n>\d{1,3}x |two |dual |both |a pair of )?"
    r"\b(?P<size>\d{1,3})[\s-]?gi?b[\s-](?:\w+[\s-]){0,2}?(?:cards?|gpus?)\b"
)
_ANY = any_of(r"(?:modern|any|good|consumer|current)\s(?:\w+\s)?gpu")
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
            end = _end_of_name(text, chosen[0].name, match.end())
            number = number_of(text, match.start(), end)
            yield DeviceSaid(chosen[0].name, chosen, number or 1, 0, match.start(), end, counted=bool(number))


def _end_of_name(text: str, name: str, end: int) -> int:
    """Where the words of a name that follow one another end."""
    for word in name.lower().split()[1:]:
        following = re.match(rf"[\s-]?{re.escape(word)}\b", text[end:])
        end += following.end() if following else 0
    return end


@cache
def _by_maker() -> dict[str, list[Device]]:
    found: dict[str, list[Device]] = {}
    for chip in (d for d in all_devices() if d.kind == "asic"):
        first = chip.name.lower().split()[0]
        if first != chip.vendor.lower() or chip.vendor not in _MAKERS_OF_MUCH_ELSE:
            found.setdefault(first, []).append(chip)
        else:
            found.setdefault(chip.name.lower().split()[1], []).append(chip)
    return found


def _kinds(text: str) -> list[DeviceSaid]:
    """`a 24 GB card` is any card with that memory; `a modern GPU` is any at all."""
    cards = tuple(d for d in all_devices() if d.kind == "gpu")
    found = [said for match in _CARD.finditer(text) if (said := _card(match, cards)).devices]
    any_gpu = _ANY.search(text)
    if found or not any_gpu:
        return found
    return [DeviceSaid("some GPU", cards, 1, 0, any_gpu.start(), any_gpu.end(), is_class=True)]


def _card(match: re.Match[str], cards: tuple[Device, ...]) -> DeviceSaid:
    size = int(match["size"]) * GIB
    fitting = tuple(d for d in cards if d.memory_bytes and is_near_size(d.memory_bytes, size))
    number = int(re.sub(r"\D", "", match["n"]) or 2) if match["n"] else 1
    label = f"{match['size']} GB card" if number == 1 else f"{number} x {match['size']} GB"
    return DeviceSaid(label, fitting, number, size, *match.span(), counted=number > 1, is_class=True)
