"""A plan without GPUs, for when these have not even room for the buffers that llama.cpp keeps on every one it sees."""

import msgspec

from unslow.facts.knob import Knob
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
    without, _ = plan_llama_cpp(question._replace(hardware=hardware.without_gpus(), current=None), now, by_itself)
    if with_gpus and not without.options:  # which says what there is of both
        return with_gpus
    return without._replace(options=tuple(_without_gpus(option, now) for option in without.options)), None


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
