from answers import ask
from cases import gpu_case, with_facts
from firing import long_context, spilled

from unslow.facts.machine import GpuProcess
from unslow.facts.units import GIB
from unslow.think.causes._cause import Absent, Found
from unslow.think.judge import judge

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


def test_not_where_the_cache_fits():
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
