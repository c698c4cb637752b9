from answers import ask
from cases import r, with_facts
from engines import vllm
from made_up_telemetry import traffic
from under_load import saying
from written import one_change

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB
from unslow.look.runtimes import vllm as vllm_looker
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "kv_cache_preemption"


def fires():
    return server(kv_usage=0.99, deferred_requests=12, running_requests=8)


def server(**facts):
    return with_facts(Case(), {f"runtime.{name}": value for name, value in facts.items()})


def test_a_full_cache_and_a_queue_before_it(wording):
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == () or "queueing" in report.findings[0].explains
    wording(report.findings[0].because, tells="12")


def test_preemptions_need_nothing_else():
    assert isinstance(ask(NAME, server(preemptions=40)), Found)


def test_near_miss_a_cache_with_room():
    assert isinstance(ask(NAME, server(kv_usage=0.4, deferred_requests=3, preemptions=0)), Absent)


def test_a_cache_that_fills_up_under_several_requests():
    full = server(kv_usage=0.95, running_requests=8, deferred_requests=0)
    assert isinstance(ask(NAME, saying(slow="decode", case=full)), Found)
    answer = ask(NAME, full)
    assert isinstance(answer, CannotTell)
    assert "preemptions" in answer.how_to_get


def test_what_somebody_saw():
    assert isinstance(ask(NAME, saying(Topic.CACHE_FULL, "sequence group is preempted by recompute mode")), Found)
    answer = ask(NAME, saying(Topic.CACHE_FULL, "the KV cache runs out"))
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_near_miss_one_long_conversation_in_its_own_cache():
    full = server(kv_usage=0.95, running_requests=1, deferred_requests=0, preemptions=0)
    assert isinstance(ask(NAME, saying(slow="decode", case=full)), Absent)


def watched(**facts):
    return with_facts(Case(), {"run.traffic": traffic(8.0, facts.pop("waiting", 0.0), **facts)})


def test_what_happened_while_it_was_watched_decides():
    assert isinstance(ask(NAME, watched(preemptions=r(3))), Found)
    assert isinstance(ask(NAME, watched(waiting=4.0, cache_used=r(0.99))), Found)


def test_near_miss_a_counter_that_grew_before_anybody_watched():
    case = with_facts(watched(preemptions=r(0), cache_used=r(0.5)), {"runtime.preemptions": 40})
    assert isinstance(ask(NAME, case), Absent)


def test_near_miss_many_wait_before_a_cache_with_room():
    case = with_facts(watched(waiting=9.0, cache_used=r(0.3), preemptions=r(0)), {"runtime.kv_usage": 0.3})
    assert isinstance(ask(NAME, case), Absent)


def test_near_miss_a_runtime_that_throws_nothing_out():
    assert isinstance(ask(NAME, server(name="llama.cpp")), Absent)
    assert isinstance(ask(NAME, server(name="vLLM")), CannotTell)


def short_of_cache(share: float, free_gib: float):
    free = {f"machine.gpus.{i}.vram_free_bytes": int(free_gib * GIB) for i in (0, 1)}
    return vllm(**free, **{"runtime.gpu_memory_fraction": share, "runtime.preemptions": 40})


def test_memory_that_nobody_uses_is_the_first_advice():
    first = ask(NAME, short_of_cache(0.4, 14.0)).remedies[0]
    assert (first.change.knob, first.change.value) == ("fit_margin", 0.92)
    assert ask(NAME, short_of_cache(0.6, 6.0)).remedies[0].change.value == 0.79


def test_near_miss_memory_that_is_in_use():
    assert ask(NAME, short_of_cache(0.9, 2.0)).remedies[0].change.knob == "kv_cache_type"
    assert ask(NAME, short_of_cache(0.4, 1.0)).remedies[0].change.knob == "kv_cache_type"


def test_near_miss_a_few_of_thousands_of_requests(wording):
    def asked(thrown: int) -> Case:
        seen = traffic(40.0, 2.0, preemptions=r(thrown))
        return with_facts(Case(), {"run.traffic": seen, "run.request_s": (0.5,)})

    few = ask(NAME, asked(3))
    assert isinstance(few, Absent)
    wording(few.because, tells=("840", "10 s"))
    assert isinstance(ask(NAME, asked(30)), Found)


def test_a_full_cache_is_not_ruled_out_where_nobody_counts_who_waits():
    seen = {"cache_used": r(0.99), "preemptions": r(0)}
    counts = {"runtime.kv_usage": 0.99, "runtime.preemptions": 0}
    assert isinstance(ask(NAME, with_facts(watched(**seen), counts)), Absent)
    assert isinstance(ask(NAME, with_facts(watched(**seen, counts_waiting=False), counts)), CannotTell)


def test_a_number_of_blocks_that_was_set_by_hand_is_the_first_to_go(wording):
    starved = server(preemptions=13, kv_blocks_set=640, kv_capacity_tokens=10_240, running_requests=20)
    found = ask(NAME, starved)
    assert isinstance(found, Found)
    first = found.remedies[0].change
    assert (first.knob, first.value) == (Knob.CAPACITY, "all blocks")
    wording(first.why, tells=("640", "10,240"))
    assert found.remedies[-1].change == Knob.PARALLEL.to(18, found.remedies[-1].change.why)
    command = ["vllm", "serve", "m", "--num-gpu-blocks-override", "640", "--port", "1"]
    fragment, line = one_change(vllm_looker, first, Runtime(command=r(command)))
    assert (fragment, line) == ("remove --num-gpu-blocks-override 640", "vllm serve m --port 1")


def test_a_shorter_limit_is_never_offered_for_a_paged_cache():
    """It reserves nothing: what a plan says too."""
    runtime = Runtime(context_length=r(131_072), name=r("vLLM"))
    for remedy in ask(NAME, server(preemptions=13, name="vLLM", context_length=131_072)).remedies:
        assert not any("--max-model-len" in line for line in one_change(vllm_looker, remedy.change, runtime))
