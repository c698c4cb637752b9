"""A GPU that is full has no room even for buffers: then the processors do it alone."""

from tests.think.plan.llama_cpp import planning

from unslow.think.plan.goal import Goal, Work
from unslow.think.plan.llama_cpp.host_alone import plan_with_or_without_gpus
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.question import Question
from unslow.think.plan.llama_cpp.variants import Variant
from unslow.think.plan.planned import Planned
from unslow.think.plan.report import ChangeShown

GOAL = Goal(4096, Work(512, 0, 128))


def planned(gpu_gib: float, host_gib: float, *now: ChangeShown) -> Planned:
    given = Variant("Q4_K_M", Pieces(planning.blueprint()), 135_000_000, given=True, at_hand=True)
    machine = planning.hardware(gpu_gib, host_gib=host_gib)
    return plan_with_or_without_gpus(Question((given,), machine, GOAL, 2**28, 8), now, 8)[0]


def test_a_gpu_with_room_is_used() -> None:
    found = planned(8, 8)
    assert found.recommended is not None
    assert "device" not in {change.knob for change in found.options[found.recommended].settings}


def test_a_full_gpu_is_left_alone() -> None:
    found = planned(0.01, 8)
    assert found.recommended is not None
    best = found.options[found.recommended]
    assert best.changes[0].value == "none"
    assert {change.knob: change.value for change in best.settings}["device"] == "none"
    assert best.name.endswith("no GPU")


def test_what_is_set_so_already_is_no_change() -> None:
    found = planned(0.01, 8, ChangeShown(knob="device", value="none"))
    assert found.recommended is not None
    assert "device" not in {change.knob for change in found.options[found.recommended].changes}


def test_nothing_fits_where_the_host_is_full_too() -> None:
    found = planned(0.01, 0.01)
    assert found.recommended is None
    assert "nothing fits" in found.reason
