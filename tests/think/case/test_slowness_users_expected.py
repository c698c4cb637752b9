import msgspec
import pytest
from cases import cpu_case, gpu_case, with_tensors

from unslow.facts.snapshot import Case
from unslow.facts.values import GIB
from unslow.think.case.prediction import predict
from unslow.think.case.slowness import expected_together
from unslow.think.case.work import Cure


def test_one_user_is_expected_as_the_diagnosis_does():
    case = gpu_case()
    alone = predict(case)
    assert expected_together(case, 1, case.run.depth_tokens.value_or(0)) == pytest.approx(
        alone.tokens_per_s.mid, rel=0.01
    )


def test_more_users_get_more_together_and_less_each():
    rates = [expected_together(gpu_case(), users, 300.0) or 0.0 for users in (1, 2, 4, 8)]
    assert rates == sorted(rates)
    each = [rate / users for rate, users in zip(rates, (1, 2, 4, 8), strict=True)]
    assert each == sorted(each, reverse=True)
    assert rates[-1] > 2 * rates[0]


def test_deeper_conversations_are_slower():
    shallow, deep = (expected_together(gpu_case(), 8, depth) or 0.0 for depth in (100.0, 8000.0))
    assert deep < shallow


def test_nothing_is_expected_where_nothing_tells():
    assert expected_together(Case(), 4, 100.0) is None
    assert expected_together(gpu_case(), 0, 100.0) is None
    assert expected_together(msgspec.structs.replace(gpu_case(), machine=Case().machine), 4, 100.0) is None


def test_a_cpu_gains_less():
    case = with_tensors(cpu_case())
    rates = [expected_together(case, users, 100.0) or 0.0 for users in (1, 2, 4, 8)]
    assert rates == sorted(rates)
    assert rates[0] == pytest.approx(predict(case).tokens_per_s.mid)
    assert rates[-1] < 8 * rates[0]


def test_a_cpu_without_the_tensors_of_the_model_is_reckoned_from_its_shape():
    exact, rough = (expected_together(case, 4, 100.0) for case in (with_tensors(cpu_case()), cpu_case()))
    assert rough == pytest.approx(exact, rel=0.1)


def test_what_is_shared_gains_less_than_a_gpu():
    whole, shared = (
        [expected_together(with_tensors(gpu_case(layers)), users, 100.0) or 0.0 for users in (1, 8)]
        for layers in (33, 20)
    )
    assert 1 < shared[1] / shared[0] < whole[1] / whole[0]


def test_with_a_cure_it_is_the_cured_server():
    spilled, there = with_tensors(gpu_case(20)), with_tensors(gpu_case(33))
    cured = expected_together(spilled, 8, 100.0, Cure(vram_bytes=20 * GIB))
    assert cured == pytest.approx(expected_together(there, 8, 100.0))
