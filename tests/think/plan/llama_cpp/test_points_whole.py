"""What fits nowhere is known without a search."""

from tests.think.plan.llama_cpp import planning

from unslow.think.hardware import Room
from unslow.think.plan.llama_cpp.points import has_room_for

PLAN = planning.blueprint("llama-3.1-8b")  # 4.6 GiB


def test_gpus_and_host_together_must_hold_the_weights() -> None:
    assert has_room_for(PLAN, planning.hardware(2, host_gib=3))
    assert has_room_for(PLAN, planning.hardware(1, gpus=2, host_gib=3))
    assert not has_room_for(PLAN, planning.hardware(1, host_gib=3))


def test_unknown_host_has_room_unless_memory_is_unified() -> None:
    unknown = planning.hardware(1)._replace(host_room=None)
    assert has_room_for(PLAN, unknown)
    shared = Room("M1", 2 * 2**30, unified=True)
    assert not has_room_for(PLAN, unknown._replace(rooms=(shared,)))
