from answers import ask
from cases import gpu_case, with_facts
from told import pasted

from unslow.facts.values import GIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "parallel_slots_inflate_kv"


def fires():
    slots = {"runtime.scheduling.slots": 8, "runtime.cache.unified": False, "runtime.scheduling.busy_slots": 0}
    return with_facts(gpu_case(layers_on_gpu=12, free_gib=8.0, context=65536), slots)


def test_eight_idle_slots_fire_and_explain_context_and_spill():
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    assert {"context_larger_than_needed", "weights_spill_to_ram"} <= set(report.findings[0].explains)
    assert report.findings[0].fixes[0].value == 1


def test_slots_sharing_a_cache_and_a_single_slot_are_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.cache.unified": True})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.scheduling.slots": 1})), Absent)


def test_busy_slots_are_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.scheduling.busy_slots": 5})), Absent)


def test_runtimes_sums_fire_only_with_separate_caches_that_make_the_difference():
    sums = {"slots": 4, "gpu_layers": 20, "layers": 33, "asked_bytes": 14 * GIB, "available_bytes": 10 * GIB}
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3080"], runtime=sums | {"kv_bytes": 8 * GIB})), CannotTell)
    sums |= {"kv_unified": False}
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3080"], runtime=sums | {"kv_bytes": 8 * GIB})), Found)
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3080"], runtime=sums | {"kv_bytes": 2 * GIB})), CannotTell)


def test_slots_that_free_few_of_the_missing_layers_are_ruled_out(wording):
    slots = {"runtime.scheduling.slots": 2, "runtime.cache.unified": False, "runtime.scheduling.busy_slots": 0}
    answer = ask(NAME, with_facts(gpu_case(layers_on_gpu=18, free_gib=4.2, context=8192), slots))
    assert isinstance(answer, Absent)
    wording(answer.because)


def test_other_processes_are_explained_only_where_one_slot_is_enough():
    slots = {"runtime.scheduling.slots": 8, "runtime.cache.unified": False, "runtime.scheduling.busy_slots": 0}
    narrow = ask(NAME, with_facts(gpu_case(layers_on_gpu=6, free_gib=5.0, context=65536), slots))
    assert isinstance(narrow, Found)
    assert "33 of 33" not in narrow.because
    assert "other_process_holds_vram" not in narrow.explains
    assert "other_process_holds_vram" in ask(NAME, fires()).explains
