from answers import ask
from cases import r, with_facts
from engines import vllm
from made_up_telemetry import traffic
from under_load import saying
from written import one_change

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.runtime import FACT_PATHS, Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB
from unslow.look.runtimes import vllm as vllm_looker
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "kv_cache_preemption"


def fires():
    return server(kv_usage=0.99, deferred_requests=12, running_requests=8)


def server(**facts):
    return with_facts(Case(), {f"runtime.{FACT_PATHS[name]}": value for name, value in facts.items()})


def test_full_cache_with_waiting_requests_is_found(wording):
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == () or "queueing" in report.findings[0].explains
    wording(report.findings[0].because, tells="12")


def test_preemption_counter_alone_is_found():
    assert isinstance(ask(NAME, server(preemptions=40)), Found)


def test_low_cache_usage_is_ruled_out_though_requests_wait():
    assert isinstance(ask(NAME, server(kv_usage=0.4, deferred_requests=3, preemptions=0)), Absent)


def test_full_cache_with_several_running_needs_a_complaint_or_preemptions():
    full = server(kv_usage=0.95, running_requests=8, deferred_requests=0)
    assert isinstance(ask(NAME, saying(slow="decode", case=full)), Found)
    answer = ask(NAME, full)
    assert isinstance(answer, CannotTell)
    assert "preemptions" in answer.how_to_get


def test_remark_about_preemption_is_found_and_about_full_cache_suspected():
    assert isinstance(ask(NAME, saying(Topic.CACHE_FULL, "sequence group is preempted by recompute mode")), Found)
    answer = ask(NAME, saying(Topic.CACHE_FULL, "the KV cache runs out"))
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_one_long_conversation_in_a_full_cache_is_ruled_out():
    full = server(kv_usage=0.95, running_requests=1, deferred_requests=0, preemptions=0)
    assert isinstance(ask(NAME, saying(slow="decode", case=full)), Absent)


def watched(**facts):
    return with_facts(Case(), {"run.traffic": traffic(8.0, facts.pop("waiting", 0.0), **facts)})


def test_watched_preemptions_or_waiting_on_full_cache_is_found():
    assert isinstance(ask(NAME, watched(preemptions=r(3))), Found)
    assert isinstance(ask(NAME, watched(waiting=4.0, cache_used=r(0.99))), Found)


def test_old_counter_without_preemptions_while_watched_is_ruled_out():
    case = with_facts(watched(preemptions=r(0), cache_used=r(0.5)), {"runtime.scheduling.preemptions": 40})
    assert isinstance(ask(NAME, case), Absent)


def test_waiting_requests_with_room_in_the_cache_are_ruled_out():
    case = with_facts(watched(waiting=9.0, cache_used=r(0.3), preemptions=r(0)), {"runtime.cache.usage": 0.3})
    assert isinstance(ask(NAME, case), Absent)


def test_llama_cpp_never_preempts_and_vllm_needs_counters():
    assert isinstance(ask(NAME, server(name="llama.cpp")), Absent)
    assert isinstance(ask(NAME, server(name="vLLM")), CannotTell)


def short_of_cache(share: float, free_gib: float):
    free = {f"machine.gpus.{i}.vram_free_bytes": int(free_gib * GIB) for i in (0, 1)}
    return vllm(**free, **{"runtime.memory.gpu_memory_fraction": share, "runtime.scheduling.preemptions": 40})


def test_first_fix_is_a_larger_memory_fraction_where_vram_is_free():
    first = ask(NAME, short_of_cache(0.4, 14.0)).remedies[0]
    assert (first.change.knob, first.change.value) == ("fit_margin", 0.92)
    assert ask(NAME, short_of_cache(0.6, 6.0)).remedies[0].change.value == 0.79


def test_memory_fraction_is_not_raised_where_vram_is_in_use():
    assert ask(NAME, short_of_cache(0.9, 2.0)).remedies[0].change.knob == "kv_cache_type"
    assert ask(NAME, short_of_cache(0.4, 1.0)).remedies[0].change.knob == "kv_cache_type"


def test_preemptions_below_one_percent_of_requests_are_ruled_out(wording):
    def asked(thrown: int) -> Case:
        seen = traffic(40.0, 2.0, preemptions=r(thrown))
        return with_facts(Case(), {"run.traffic": seen, "run.request_s": (0.5,)})

    few = ask(NAME, asked(3))
    assert isinstance(few, Absent)
    wording(few.because, tells=("840", "10 s"))
    assert isinstance(ask(NAME, asked(30)), Found)


def test_full_cache_without_a_waiting_count_gives_cannot_tell():
    seen = {"cache_used": r(0.99), "preemptions": r(0)}
    counts = {"runtime.cache.usage": 0.99, "runtime.scheduling.preemptions": 0}
    assert isinstance(ask(NAME, with_facts(watched(**seen), counts)), Absent)
    assert isinstance(ask(NAME, with_facts(watched(**seen, counts_waiting=False), counts)), CannotTell)


def test_first_fix_removes_num_gpu_blocks_override(wording):
    starved = server(preemptions=13, kv_blocks_set=640, kv_capacity_tokens=10_240, running_requests=20)
    found = ask(NAME, starved)
    assert isinstance(found, Found)
    first = found.remedies[0].change
    assert (first.knob, first.value) == (Knob.CAPACITY, "all blocks")
    wording(first.why, tells=("640", "10,240"))
    assert found.remedies[-1].change == Knob.PARALLEL.to(18, found.remedies[-1].change.why)
    command = ["vllm", "serve", "m", "--num-gpu-blocks-override", "640", "--port", "1"]
    fragment, line = one_change(vllm_looker, first, Runtime().with_facts(command=r(command)))
    assert (fragment, line) == ("remove --num-gpu-blocks-override 640", "vllm serve m --port 1")


def test_shorter_max_model_len_is_never_offered():
    """A shorter limit frees nothing, as a plan says too."""
    runtime = Runtime().with_facts(context_length=r(131_072), name=r("vLLM"))
    for remedy in ask(NAME, server(preemptions=13, name="vLLM", context_length=131_072)).remedies:
        assert not any("--max-model-len" in line for line in one_change(vllm_looker, remedy.change, runtime))
