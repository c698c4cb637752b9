from answers import ask
from cases import cpu_case, gpu_case, with_facts
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "gpu_underused_by_one_stream"


def fires(slots: int = 1, waiting: int = 5):
    return with_facts(gpu_case(), {"runtime.slots": slots, "runtime.deferred_requests": waiting})


def test_five_wait_for_one_slot():
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("queueing",)
    assert report.findings[0].fixes[0].value == 6


def test_a_single_user():
    assert isinstance(ask(NAME, fires(waiting=0)), Absent)


def test_several_slots():
    assert isinstance(ask(NAME, fires(slots=4)), Absent)


def test_no_gpu_no_gain():
    assert isinstance(ask(NAME, with_facts(cpu_case(), {"runtime.slots": 1, "runtime.deferred_requests": 5})), Absent)


def test_somebody_whose_requests_queue_up():
    case = saying(Topic.QUEUED, "requests queue up", case=with_facts(Case(), {"runtime.max_sequences": 1}))
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, saying(Topic.QUEUED, "requests queue up")), CannotTell)
