"""The settings of a case with a cure applied."""

from cases import gpu_case, with_facts

from unslow.think.case.work import AS_USUAL, Cure, with_settings
from unslow.think.memo import one_judgement


def test_a_case_that_replays_its_launches_stays_the_very_same():
    case = with_facts(gpu_case(33), {"runtime.name": "vLLM"})
    recorded = with_facts(case, {"runtime.eager": False})
    assert with_settings(case, AS_USUAL) is case, "nobody says that it launches one by one, and such do not"
    assert with_settings(recorded, AS_USUAL) is recorded


def test_launches_one_by_one_are_cured():
    case = gpu_case(33)
    told = with_facts(case, {"runtime.name": "vLLM", "runtime.eager": True})
    by_default = with_facts(case, {"runtime.name": "Transformers"})
    for one in (told, by_default):
        assert with_settings(one, AS_USUAL).runtime.eager.value_or(None) is False


def test_within_a_judgement_the_same_cure_makes_the_same_case():
    case, cure = gpu_case(33), Cure(threads=4)
    with one_judgement():
        assert with_settings(case, cure) is with_settings(case, cure) is not case
        assert with_settings(case, cure).runtime.threads.value_or(0) == 4
