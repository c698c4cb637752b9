"""The settings of a case with a cure applied."""

from cases import gpu_case, with_facts

from unslow.think.case.cure import AS_USUAL, Cure
from unslow.think.case.view import CaseView


def test_case_with_graphs_is_returned_unchanged():
    case = with_facts(gpu_case(33), {"runtime.name": "vLLM"})
    recorded = with_facts(case, {"runtime.compute.eager": False})
    for view in (CaseView(case), CaseView(recorded)):
        assert view.with_cure(AS_USUAL) is view, "vLLM does not launch kernels one by one unless it is told to"


def test_eager_launches_are_cured():
    case = gpu_case(33)
    told = with_facts(case, {"runtime.name": "vLLM", "runtime.compute.eager": True})
    by_default = with_facts(case, {"runtime.name": "Transformers"})
    for one in (told, by_default):
        assert CaseView(one).with_cure(AS_USUAL).runtime.compute.eager.value_or(None) is False


def test_same_cure_gives_the_same_case_within_a_judgement():
    case, cure = CaseView(gpu_case(33)), Cure(threads=4)
    assert case.with_cure(cure) is case.with_cure(cure) is not case
    assert case.with_cure(cure).runtime.compute.threads.value_or(0) == 4
