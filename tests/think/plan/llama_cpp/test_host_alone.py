"""A full GPU has no room even for buffers: then the CPU computes alone."""

import pytest
from tests.think.plan.llama_cpp import planning

from unslow.think.hardware import Hardware, Room
from unslow.think.plan.goal import Goal, Work
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.plan import plan_with_or_without_gpus
from unslow.think.plan.llama_cpp.question import LlamaPlanQuestion, Variant
from unslow.think.plan.pareto_front import FrontAndChoice
from unslow.think.plan.report import ChangeShown

GOAL = Goal(4096, Work(512, 0, 128))


GIVEN = Variant("Q4_K_M", Pieces(planning.blueprint()), 135_000_000, given=True, at_hand=True)


def planned(gpu_gib: float, host_gib: float, *now: ChangeShown) -> FrontAndChoice:
    return planned_on(planning.hardware(gpu_gib, host_gib=host_gib), *now)


def planned_on(machine: Hardware, *now: ChangeShown) -> FrontAndChoice:
    return plan_with_or_without_gpus(LlamaPlanQuestion((GIVEN,), machine, GOAL, 2**28, 8), now, 8)


def test_gpu_with_room_is_used() -> None:
    found = planned(8, 8)
    assert found.recommended is not None
    assert "device" not in {change.knob for change in found.options[found.recommended].settings}


def test_full_gpu_is_not_used() -> None:
    found = planned(0.01, 8)
    assert found.recommended is not None
    best = found.options[found.recommended]
    assert best.changes[0].value == "none"
    assert {change.knob: change.value for change in best.settings}["device"] == "none"
    assert best.name.endswith("no GPU")


def test_device_none_that_is_already_set_is_not_a_change() -> None:
    found = planned(0.01, 8, ChangeShown(knob="device", value="none"))
    assert found.recommended is not None
    assert "device" not in {change.knob for change in found.options[found.recommended].changes}


def test_nothing_fits_where_the_host_is_full_too(wording) -> None:
    found = planned(0.01, 0.01)
    assert found.recommended is None
    assert "nothing fits" in found.reason
    wording(planned(0.3, 0.01).reason, tells=("0.3 GiB", "0.0 GiB"))


@pytest.mark.parametrize("share", [8, 0.5])
def test_unified_memory_is_limited(share: float) -> None:
    weights = sum(tensor.bytes for tensor in GIVEN.blueprint.tensors)
    machine = planning.hardware(1)
    capacity = int(share * weights)
    room = Room("both", capacity, reserve_bytes=capacity - 2**20, unified=True, context_bytes=0)
    found = planned_on(machine._replace(rooms=(room,), host_room=None))
    assert (found.recommended is None) == (share < 1)


@pytest.mark.parametrize("full", [0, 1])
def test_second_gpu_is_used_with_the_host_beside_a_full_one(full: int) -> None:
    machine, one = planning.hardware(0, gpus=2), planning.hardware(0.37)
    rooms = tuple(machine.rooms[0] if n == full else one.rooms[0] for n in range(2))
    found, alone = planned_on(machine._replace(rooms=rooms)), planned_on(one)
    assert found.recommended is not None
    assert alone.recommended is not None
    best, wanted = found.options[found.recommended], alone.options[alone.recommended]
    told = {change.knob: change.value for change in best.settings}
    assert told["main_gpu"] == 1 - full
    assert "on the CPU" in best.name
    assert best.speed
    assert wanted.speed
    assert best.speed.request_s.mid <= 1.03 * wanted.speed.request_s.mid
    assert alone.searched
    assert found.searched
    assert alone.searched.exact
    assert not found.searched.exact  # nobody weighs every way to divide layers
