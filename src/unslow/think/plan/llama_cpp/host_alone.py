"""A plan without GPUs, for when these have not even room for the buffers that llama.cpp keeps on every one it sees."""

import msgspec

from unslow.facts.knob import Knob
from unslow.think.fit.rooms import Room
from unslow.think.plan.llama_cpp.hardware import Hardware
from unslow.think.plan.llama_cpp.plan import plan_llama_cpp
from unslow.think.plan.llama_cpp.question import Question
from unslow.think.plan.planned import Planned
from unslow.think.plan.report import ChangeShown, OptionShown

_NONE = ChangeShown(knob=Knob.DEVICE.value, value="none", why="the GPUs have no room even for its buffers")


def plan_with_or_without_gpus(
    question: Question, now: tuple[ChangeShown, ...], by_itself: int, hindered: float = 1.0
) -> tuple[Planned, OptionShown | None]:
    """The plan, on processors alone where nothing at all fits with GPUs; and what is now.

    What runs beside full GPUs is not priced: some of it lies where nobody put it.
    """
    hardware = question.hardware
    full = bool(hardware.rooms) and max(hardware.free_bytes) <= question.margin_bytes
    with_gpus = None if full else plan_llama_cpp(question, now, by_itself, hindered)
    if with_gpus and (with_gpus[0].options or not hardware.rooms):
        return with_gpus
    bare = hardware._replace(rooms=(), chips=(), setting=hardware.host_setting, host_room=_host_room(hardware))
    without, _ = plan_llama_cpp(question._replace(hardware=bare, current=None), now, by_itself)
    if with_gpus and not without.options:  # which says what there is of both
        return with_gpus
    return without._replace(options=tuple(_without_gpus(option, now) for option in without.options)), None


def _host_room(hardware: Hardware) -> Room | None:
    """The host's memory; where a GPU shares it, all that others leave."""
    shared = next((room for room in hardware.rooms if room.unified), None)
    return hardware.host_room or (shared and Room("host", shared.capacity_bytes, others_bytes=shared.others_bytes))


def _without_gpus(option: OptionShown, now: tuple[ChangeShown, ...]) -> OptionShown:
    changes = [change for change in option.changes if change.knob != Knob.DEVICE]
    is_new = _NONE.value not in [change.value for change in now if change.knob == Knob.DEVICE]
    return msgspec.structs.replace(
        option,
        changes=(*((_NONE,) if is_new else ()), *changes),
        settings=(_NONE, *option.settings),
        speedup=None,
        name=f"{option.name}, no GPU",
    )
