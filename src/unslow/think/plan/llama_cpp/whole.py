"""Whether a model can fit at all, and whether all of it fits onto the GPUs."""

from math import inf

from unslow.facts.blueprint import Blueprint
from unslow.think.hardware import Hardware
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.plan.goal import Goal
from unslow.think.setup import LOADED, Setup

_CACHE = "Q8_0"
"""The smallest that costs no quality."""


def has_room_for(blueprint: Blueprint, hardware: Hardware) -> bool:
    """Whether GPUs and host together hold as much as its weights: what has no room needs no search."""
    rooms, host = hardware.rooms, hardware.host_room
    shared = max((room.capacity_bytes for room in rooms if room.unified), default=inf)
    of_host = host.usable_bytes if host else shared
    weights = sum(tensor.bytes for tensor in blueprint.tensors)
    return LOADED * weights <= sum(hardware.free_bytes) + of_host


def fits_whole(blueprint: Blueprint, hardware: Hardware, goal: Goal, margin_bytes: int) -> bool:
    """With the context that is asked for, and the smallest cache that is as good as any."""
    weights = sum(tensor.bytes for tensor in blueprint.tensors if tensor.name != "token_embd.weight")
    if weights > sum(hardware.free_bytes):  # quick, and what most of them fail
        return False
    users = goal.work.users
    settings = Settings(
        context=goal.context * users, slots=users, outputs=users, key_type=_CACHE, value_type=_CACHE
    )  # fmt: skip
    return Setup(blueprint, hardware, settings, margin_bytes).left() >= 0
