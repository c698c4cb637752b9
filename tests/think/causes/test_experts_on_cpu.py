from answers import ask
from cases import gpu_case, with_facts
from firing import experts_away

from unslow.think.causes._cause import Absent, Found
from unslow.think.judge import judge

NAME = "experts_on_cpu"
fires = experts_away


def test_all_layers_counted_on_the_gpu_and_the_experts_elsewhere():
    report = judge(experts_away())
    assert report.findings[0].cause == NAME
    assert report.findings[0].fixes[0].value is None
    assert report.findings[0].fixes[0].predicted["decode_tokens_per_s"] > 60


def test_only_those_that_lack_room_must_stay():
    case = with_facts(experts_away(), {"runtime.devices.0.free_bytes": 4 * 1024**3})
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    assert 5 < answer.remedies[0].change.value < 30


def test_not_where_the_card_is_full():
    assert isinstance(ask(NAME, with_facts(experts_away(), {"runtime.devices.0.free_bytes": 2 * 1024**3})), Absent)


def test_a_dense_model_has_no_experts():
    assert isinstance(ask(NAME, with_facts(experts_away(), {"model.experts": 0})), Absent)
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.tensor_overrides": []})), Absent)
