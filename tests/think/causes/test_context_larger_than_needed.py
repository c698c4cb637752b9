from answers import ask
from cases import gpu_case, with_facts
from firing import long_context, spilled
from told import pasted

from unslow.facts.machine import GpuProcess
from unslow.facts.values import GIB
from unslow.think.causes._cause import Absent, Found
from unslow.think.judge.judge import judge

NAME = "context_larger_than_needed"
fires = long_context


def test_a_cache_of_eight_gib_for_five_hundred_tokens():
    report = judge(long_context())
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("weights_spill_to_ram",)
    assert report.findings[0].fixes[0].value == 4096


def test_the_root_even_where_a_stranger_holds_memory():
    from cases import r

    other = GpuProcess(pid=77, name=r("blender"), vram_bytes=r(15 * GIB))
    report = judge(with_facts(long_context(), {"machine.gpus.0.processes": [other]}))
    assert report.findings[0].cause == NAME
    assert "other_process_holds_vram" in report.findings[0].explains


def test_near_miss_the_cache_fits():
    answer = ask(NAME, gpu_case(context=32768))
    assert isinstance(answer, Absent)


def test_not_where_the_context_is_used():
    assert isinstance(ask(NAME, with_facts(long_context(), {"runtime.longest_sequence": 50_000})), Absent)


def test_what_the_user_needs_counts_more_than_what_was_seen():
    assert isinstance(ask(NAME, with_facts(long_context(), {"wish.context_tokens": 65536})), Absent)
    answer = ask(NAME, with_facts(long_context(), {"wish.context_tokens": 8192}))
    assert isinstance(answer, Found)
    assert answer.remedies[0].change.value == 8192


def test_not_where_even_a_short_context_helps_nothing():
    assert isinstance(ask(NAME, spilled()), Absent)


OLLAMA = {"context_length": 64000, "available_bytes": 88 * GIB, "gpu_layers": 44, "layers": 81}


def test_by_the_runtimes_own_sums_the_weights_alone_would_fit():
    sums = OLLAMA | {"asked_bytes": int(127.4 * GIB)}
    report = judge(pasted(gpus=["RTX 3090"] * 4, runtime=sums, model={"weights_bytes": int(87.3 * GIB)}))
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("weights_spill_to_ram",)


def test_not_where_the_weights_alone_are_too_large_or_all_of_it_fits():
    large = pasted(runtime=OLLAMA | {"asked_bytes": 127 * GIB}, model={"weights_bytes": 100 * GIB})
    assert isinstance(ask(NAME, large), Absent)
    small = pasted(runtime=OLLAMA | {"asked_bytes": 80 * GIB}, model={"weights_bytes": 60 * GIB})
    assert isinstance(ask(NAME, small), Absent)


def test_the_cache_is_taken_off_the_sum_where_the_file_is_unknown():
    sums = OLLAMA | {"asked_bytes": 100 * GIB, "kv_bytes": 20 * GIB}
    assert isinstance(ask(NAME, pasted(runtime=sums)), Found)


def test_a_layer_more_is_no_cause_beside_a_model_that_is_too_large():
    """The weights lack gigabytes, and half of the context is one layer's worth of them."""
    case = with_facts(gpu_case(layers_on_gpu=18, free_gib=4.2, context=8192), {"runtime.longest_sequence": 500})
    answer = ask(NAME, case)
    assert isinstance(answer, Absent)
    assert "only" in answer.because
    assert judge(case).findings[0].cause == "weights_spill_to_ram"
