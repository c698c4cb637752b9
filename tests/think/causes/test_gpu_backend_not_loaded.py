import msgspec
from answers import ask
from cases import cpu_case, gpu_case, with_facts
from firing import no_backend

from unslow.facts.values import not_found
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "gpu_backend_not_loaded"
fires = no_backend


def test_a_card_that_the_runtime_does_not_see():
    report = judge(no_backend())
    assert report.findings[0].cause == NAME
    assert "NVIDIA GeForce RTX 4090" in report.findings[0].because
    assert report.expected.achievable["decode_tokens_per_s"].mid > 80


def test_a_device_list_of_only_the_cpu_is_enough():
    assert isinstance(ask(NAME, with_facts(no_backend(), {"runtime.gpu_refused": not_found("no such line")})), Found)


def test_hidden_load_lines_are_no_proof():
    gone = not_found("not in the log", "restart with -lv 4")
    case = with_facts(
        no_backend(),
        {"runtime.gpu_refused": gone, "runtime.devices": gone, "runtime.buffers": gone, "runtime.backends": gone},
    )
    answer = ask(NAME, case)
    assert isinstance(answer, CannotTell)
    assert "-lv 4" in answer.how_to_get


def test_not_without_a_gpu_nor_with_one_in_use():
    assert isinstance(ask(NAME, cpu_case()), Absent)
    assert isinstance(ask(NAME, gpu_case()), Absent)


def test_not_for_the_embedded_engine_nor_by_choice():
    embedded = msgspec.structs.replace(no_backend().runtime, embedded=True)
    assert isinstance(ask(NAME, msgspec.structs.replace(no_backend(), runtime=embedded)), Absent)
    assert isinstance(ask(NAME, with_facts(no_backend(), {"runtime.device_set": "none"})), Absent)
