"""Whether a speed falls short, by prediction or by complaint."""

import msgspec
from cases import cpu_case, gpu_case, with_facts, without
from under_load import saying

from unslow.facts.run import Run
from unslow.think.case.view import CaseView


def test_speed_within_the_interval_is_not_a_shortfall():
    assert CaseView(gpu_case()).speed.shortfall == 1
    assert CaseView(gpu_case()).speed.is_slow is False
    slow = with_facts(gpu_case(), {"run.decode_tokens_per_s": 13.0})
    assert 8 < CaseView(slow).speed.shortfall < 14
    assert CaseView(slow).speed.is_slow is True


def test_without_a_measured_speed_only_a_complaint_counts():
    unmeasured = msgspec.structs.replace(cpu_case(), run=Run())
    assert CaseView(unmeasured).speed.is_slow is None
    assert CaseView(saying(slow="decode", case=unmeasured)).speed.is_slow is True
    assert CaseView(saying(slow="load", case=unmeasured)).speed.is_slow is None


def test_prediction_wins_over_a_complaint():
    assert CaseView(saying(slow="decode", case=gpu_case())).speed.is_slow is False
    assert CaseView(without(gpu_case(), "model.weights_bytes")).speed.shortfall is None
