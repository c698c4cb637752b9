"""Machines and models that plans are tried on."""

from unslow.catalog.devices import find_device
from unslow.catalog.models import model_at
from unslow.facts.model import Blueprint
from unslow.facts.values import GIB
from unslow.think.blueprints import made_up
from unslow.think.hardware import Hardware, Processors, Room
from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.physics.chip import SpeedSetting
from unslow.think.plan.goal import Work
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.price import Pricing, SearchCount
from unslow.think.plan.llama_cpp.question import EVERYTHING, Abilities
from unslow.think.plan.llama_cpp.search import Search
from unslow.think.speed.question import gpu_chip

SMALL = "smollm2-135m"
MARGIN_BYTES = 160 * 2**20


def blueprint(stem: str = SMALL, quant: str = "Q4_K_M") -> Blueprint:
    """A well-known model in some quant."""
    return made_up(model_at(stem), quant)


def hardware(gpu_gib: float, gpus: int = 1, host_gib: float = 64, name: str = "RTX 4090") -> Hardware:
    """So many GPUs of which so much is free, beside a desktop's processors."""
    device = find_device(name)
    assert device
    return Hardware(
        rooms=(Room(name, int(gpu_gib * GIB), context_bytes=0),) * gpus,
        chips=(gpu_chip(device),) * gpus,
        setting=SpeedSetting("cuda", family=device.family, device=device.name),
        processors=Processors(8, 70e9, 14e9),
        host_setting=SpeedSetting("cpu"),
        host_room=Room("host", int(host_gib * GIB)),
        link_bytes_per_s=25e9,
    )


def search(plan: Blueprint, machine: Hardware, work: Work, abilities: Abilities = EVERYTHING) -> Search:
    """A search with a small margin."""
    return Search(Pricing(Pieces(plan), machine, work), MARGIN_BYTES, 8, SearchCount(), abilities)


def settings(context: int = 4096, cache: str = "F16") -> Settings:
    """Of a server with one slot."""
    return Settings(context=context, key_type=cache, value_type=cache, outputs=1, flash_attention=True)
