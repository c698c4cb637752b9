from answers import ask
from cases import gpu_case, with_facts
from firing import long_context, spilled
from told import pasted

from unslow.facts.machine import GpuProcess
from unslow.facts.values import GIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Found
from unslow.think.judge.judge import judge

NAME = "context_larger_than_needed"
fires = long_context


def test_long_context_with_short_conversations_fires_and_explains_the_spill():
    report = judge(CaseView(long_context()))
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("weights_spill_to_ram",)
    assert report.findings[0].fixes[0].value == 4096


def test_context_explains_another_process_that_holds_memory():
    from cases import r

    other = GpuProcess(pid=77, name=r("blender"), vram_bytes=r(15 * GIB))
    report = judge(CaseView(with_facts(long_context(), {"machine.gpus.0.processes": [other]})))
    assert report.findings[0].cause == NAME
    assert "other_process_holds_vram" in report.findings[0].explains


def test_cache_that_leaves_all_layers_on_the_gpu_is_ruled_out():
    answer = ask(NAME, gpu_case(context=32768))
    assert isinstance(answer, Absent)


def test_context_that_is_used_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(long_context(), {"runtime.history.longest_sequence": 50_000})), Absent)


def test_requested_context_counts_more_than_the_longest_conversation():
    assert isinstance(ask(NAME, with_facts(long_context(), {"wish.context_tokens": 65536})), Absent)
    answer = ask(NAME, with_facts(long_context(), {"wish.context_tokens": 8192}))
    assert isinstance(answer, Found)
    assert answer.remedies[0].change.value == 8192


def test_spill_that_a_short_context_does_not_cure_is_ruled_out():
    assert isinstance(ask(NAME, spilled()), Absent)


OLLAMA = {"context_length": 64000, "available_bytes": 88 * GIB, "gpu_layers": 44, "layers": 81}


def test_weights_that_fit_alone_by_the_runtimes_sums_fire():
    sums = OLLAMA | {"asked_bytes": int(127.4 * GIB)}
    report = judge(CaseView(pasted(gpus=["RTX 3090"] * 4, runtime=sums, model={"weights_bytes": int(87.3 * GIB)})))
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("weights_spill_to_ram",)


def test_weights_too_large_alone_or_a_model_that_fits_are_ruled_out():
    large = pasted(runtime=OLLAMA | {"asked_bytes": 127 * GIB}, model={"weights_bytes": 100 * GIB})
    assert isinstance(ask(NAME, large), Absent)
    small = pasted(runtime=OLLAMA | {"asked_bytes": 80 * GIB}, model={"weights_bytes": 60 * GIB})
    assert isinstance(ask(NAME, small), Absent)


def test_weights_are_the_sum_less_the_cache_where_the_file_is_unknown():
    sums = OLLAMA | {"asked_bytes": 100 * GIB, "kv_bytes": 20 * GIB}
    assert isinstance(ask(NAME, pasted(runtime=sums)), Found)


def test_one_more_layer_of_a_model_that_is_too_large_is_ruled_out(wording):
    """The weights lack gigabytes, and half of the context takes as much as one layer."""
    case = with_facts(gpu_case(layers_on_gpu=18, free_gib=4.2, context=8192), {"runtime.history.longest_sequence": 500})
    answer = ask(NAME, case)
    assert isinstance(answer, Absent)
    wording(answer.because)
    assert judge(CaseView(case)).findings[0].cause == "weights_spill_to_ram"
