import msgspec
import pytest
from cases import cpu_case, gpu_case, with_tensors

from unslow.facts.snapshot import Case
from unslow.facts.values import GIB
from unslow.think.case.cure import Cure
from unslow.think.case.view import CaseView


def test_one_user_agrees_with_the_diagnosis():
    case = gpu_case()
    alone = CaseView(case).speed.predict()
    assert CaseView(case).sharing.expected_together(1, case.run.depth_tokens.value_or(0)) == pytest.approx(
        alone.tokens_per_s.mid, rel=0.01
    )


def test_more_users_raise_total_and_lower_individual_speed():
    rates = [CaseView(gpu_case()).sharing.expected_together(users, 300.0) or 0.0 for users in (1, 2, 4, 8)]
    assert rates == sorted(rates)
    each = [rate / users for rate, users in zip(rates, (1, 2, 4, 8), strict=True)]
    assert each == sorted(each, reverse=True)
    assert rates[-1] > 2 * rates[0]


def test_deeper_contexts_are_slower():
    shallow, deep = (CaseView(gpu_case()).sharing.expected_together(8, depth) or 0.0 for depth in (100.0, 8000.0))
    assert deep < shallow


def test_unknown_case_has_no_expectation():
    assert CaseView(Case()).sharing.expected_together(4, 100.0) is None
    assert CaseView(gpu_case()).sharing.expected_together(0, 100.0) is None
    assert (
        CaseView(msgspec.structs.replace(gpu_case(), machine=Case().machine)).sharing.expected_together(4, 100.0)
        is None
    )


def test_cpu_gains_less_from_batching():
    case = with_tensors(cpu_case())
    rates = [CaseView(case).sharing.expected_together(users, 100.0) or 0.0 for users in (1, 2, 4, 8)]
    assert rates == sorted(rates)
    assert rates[0] == pytest.approx(CaseView(case).speed.predict().tokens_per_s.mid)
    assert rates[-1] < 8 * rates[0]


def test_cpu_without_tensors_is_estimated_from_the_shape():
    exact, rough = (
        CaseView(case).sharing.expected_together(4, 100.0) for case in (with_tensors(cpu_case()), cpu_case())
    )
    assert rough == pytest.approx(exact, rel=0.1)


def test_partial_offload_gains_less_from_batching_than_a_gpu():
    whole, shared = (
        [CaseView(with_tensors(gpu_case(layers))).sharing.expected_together(users, 100.0) or 0.0 for users in (1, 8)]
        for layers in (33, 20)
    )
    assert 1 < shared[1] / shared[0] < whole[1] / whole[0]


def test_cure_gives_the_speed_of_the_cured_server():
    spilled, there = with_tensors(gpu_case(20)), with_tensors(gpu_case(33))
    cured = CaseView(spilled).sharing.expected_together(8, 100.0, Cure(vram_bytes=20 * GIB))
    assert cured == pytest.approx(CaseView(there).sharing.expected_together(8, 100.0))
