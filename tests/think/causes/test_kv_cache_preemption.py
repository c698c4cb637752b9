from answers import ask
from cases import with_facts
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "kv_cache_preemption"


def fires():
    return server(kv_usage=0.99, deferred_requests=12, running_requests=8)


def server(**facts):
    return with_facts(Case(), {f"runtime.{name}": value for name, value in facts.items()})


def test_a_full_cache_and_a_queue_before_it():
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == () or "queueing" in report.findings[0].explains
    assert "12 requests wait for room" in report.findings[0].because


def test_preemptions_need_nothing_else():
    assert isinstance(ask(NAME, server(preemptions=40)), Found)


def test_a_cache_with_room():
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


def test_one_long_conversation_in_its_own_cache():
    full = server(kv_usage=0.95, running_requests=1, deferred_requests=0, preemptions=0)
    assert isinstance(ask(NAME, saying(slow="decode", case=full)), Absent)
