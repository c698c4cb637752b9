"""Whether a speed falls short, by physics or by somebody's word."""

import msgspec
from cases import cpu_case, gpu_case, with_facts, without
from under_load import saying

from unslow.facts.run import Run
from unslow.think.case.slowness import generates_slowly, shortfall


def test_within_the_interval_is_no_shortfall():
    assert shortfall(gpu_case()) == 1
    assert generates_slowly(gpu_case()) is False
    slow = with_facts(gpu_case(), {"run.decode_tokens_per_s": 13.0})
    assert 8 < shortfall(slow) < 14
    assert generates_slowly(slow) is True


def test_without_a_speed_only_a_person_tells():
    unmeasured = msgspec.structs.replace(cpu_case(), run=Run())
    assert generates_slowly(unmeasured) is None
    assert generates_slowly(saying(slow="decode", case=unmeasured)) is True
    assert generates_slowly(saying(slow="load", case=unmeasured)) is None


def test_physics_comes_before_a_complaint():
    assert generates_slowly(saying(slow="decode", case=gpu_case())) is False
    assert shortfall(without(gpu_case(), "model.weights_bytes")) is None
