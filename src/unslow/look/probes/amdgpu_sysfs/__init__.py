"""AMD GPUs: through the files of the amdgpu driver, else as the PCI bus shows them.

AMD's own library is not used: it answers from the same files, and it breaks where it is half installed.
"""

import os
from pathlib import Path
from typing import Any

from unslow.facts.machine import Gpu, Machine
from unslow.facts.machine import System as SystemFacts
from unslow.facts.values import Fact, not_found, reported
from unslow.look.kernel.drm_cards import DRM, Card, read_cards
from unslow.look.kernel.drm_clients import Client, read_clients
from unslow.look.probes.amdgpu_sysfs.card import read_card
from unslow.look.probes.amdgpu_sysfs.kfd import read_nodes
from unslow.look.probes.amdgpu_sysfs.pci_bus import read_silent
from unslow.look.system import LookError, System, unknown

TURN = 1  # see the probes' own page
AMD = "0x1002"
KFD = "/dev/kfd"


def read(system: System) -> Machine:
    """All AMD GPUs, and whether ROCm may use them; nothing at all where there is none."""
    cards = read_cards(system, AMD)
    gpus = _read_gpus(system, cards) if cards else read_silent(system)
    if not gpus:
        return Machine()
    return Machine(gpus=reported(gpus, DRM), system=SystemFacts(kfd_access=_read_kfd_access(system)))


def _read_gpus(system: System, cards: list[Card]) -> tuple[Gpu, ...]:
    """The GPUs as ROCm numbers them: those of its list first, in its order, which is not always that of the bus."""
    nodes = read_nodes(system)
    order = {bus_id: place for place, bus_id in enumerate(nodes)}
    cards = sorted(cards, key=lambda card: order.get(card.bus_id, len(order)))
    clients = _read_clients(system)
    return tuple(read_card(system, index, card, nodes.get(card.bus_id), clients) for index, card in enumerate(cards))


def _read_clients(system: System) -> list[Client] | LookError:
    try:
        return read_clients(system)
    except LookError as error:
        return error


def _read_kfd_access(system: System) -> Fact[Any]:
    """Asked without opening the file, which would make this program a client of the GPU."""
    try:
        answer = system.ask(f"access {KFD}", _ask_access)
    except LookError as error:
        return unknown(error)
    match answer:
        case {"exists": True, "allowed": bool(allowed)}:
            return reported(allowed, KFD)
        case _:
            return not_found(
                f"{KFD} is not there", "load amdgpu; a container needs --device=/dev/kfd --device=/dev/dri"
            )


def _ask_access() -> dict[str, bool]:
    return {"exists": Path(KFD).exists(), "allowed": os.access(KFD, os.R_OK | os.W_OK)}
