from answers import ask
from cases import gpu_case, with_facts
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "queueing"


def fires():
    return with_facts(gpu_case(), {"run.queue_s": 8.0, "run.time_to_first_token_s": 8.4})


def test_eight_of_eight_seconds_in_the_queue():
    report = judge(fires())
    assert [f.cause for f in report.findings] == [NAME]
    assert report.verdict == "slow"


def test_a_wait_beside_a_long_prompt_is_not_most_of_it():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.time_to_first_token_s": 40.0})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"run.queue_s": 0.01})), Absent)


def test_those_who_wait_are_counted():
    busy = with_facts(Case(), {"runtime.deferred_requests": 9, "runtime.slots": 4})
    assert isinstance(ask(NAME, busy), Found)
    one = with_facts(busy, {"runtime.deferred_requests": 1})
    assert isinstance(ask(NAME, one), CannotTell)
    assert isinstance(ask(NAME, saying(slow="first_token", case=one)), Found)
    assert isinstance(ask(NAME, with_facts(busy, {"runtime.deferred_requests": 0})), Absent)


def test_what_somebody_saw():
    assert isinstance(ask(NAME, saying(Topic.QUEUED, "requests pile up", slow="first_token")), Found)
    assert not isinstance(ask(NAME, saying(Topic.QUEUED, "requests pile up", slow="load")), Found)
