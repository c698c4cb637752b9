"""Where Accelerate puts modules: card after card, then the host, then the disk, never back."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.catalog.weight_parts import Part, Role
from unslow.facts.hf_shape import HfShape

SINGLE_CARD_SHARE = 0.9
HOST_SHARE = 0.9
"""Of free memory, where the user states no limits; of several cards, all of it."""
BUFFER = 1.25
"""Balanced cards get a share and so many layers on top."""


class Module(NamedTuple):
    """What is placed as one: the table, a layer, the last norm, the output."""

    layer: int
    """-1 for the table; the number of layers for what comes after them."""
    bytes: int


def modules_of(shape: HfShape, parts: Sequence[Part]) -> list[Module]:
    """The modules in the order that they are placed in; a tied output goes with the table."""
    sizes = [0] * (shape.layers + 2)
    output = 0
    for part in parts:
        if part.role is Role.OUTPUT:
            output += part.bytes
        else:
            sizes[part.layer + 1] += part.bytes
    modules = [Module(number - 1, size) for number, size in enumerate(sizes)]
    return [*modules, Module(shape.layers, output)] if output else modules


def limits(how: str, modules: Sequence[Module], free_bytes: Sequence[int]) -> list[int]:
    """The most bytes of modules for each card, where the user states none."""
    single = len(free_bytes) == 1 and how != "sequential"
    return balanced(how, modules, [int(free * SINGLE_CARD_SHARE) if single else free for free in free_bytes])


def balanced(how: str, modules: Sequence[Module], cards: Sequence[int]) -> list[int]:
    """The cards' limits, lowered to a fair share for all but the last one unless they are filled one after another."""
    if how == "sequential" or not cards:
        return list(cards)
    total = sum(module.bytes for module in modules)
    layer = max((module.bytes for module in modules[1:] if module.layer < modules[-1].layer), default=0)
    share = total // len(cards) + int(BUFFER * layer)
    return [*(min(card, share) for card in cards[:-1]), cards[-1]]


def placed(modules: Sequence[Module], cards: Sequence[int], host_bytes: int) -> list[int]:
    """For each module its device: the cards from 0 on, then the host, then the disk.

    The first card and the host keep room for the largest module that is still to come, since offloaded ones visit them.
    """
    room = [*cards, host_bytes]
    host = len(cards)
    used, device, places = 0, 0, []
    for number, module in enumerate(modules):
        later = max((other.bytes for other in modules[number + 1 :]), default=0)
        while device <= host and used + module.bytes > room[device] - (later if device in {0, host} else 0):
            device, used = device + 1, 0
        used += module.bytes
        places.append(device)
    return places
