from answers import ask
from cases import r, with_facts
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.runtime import PastLoad
from unslow.facts.snapshot import Case
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "model_reloads_between_requests"


def loaded(*contexts: int, models: str = ""):
    loads = [
        PastLoad(model=r(models[i] if models else "a"), context_length=r(c), source=f"log:{i}")
        for i, c in enumerate(contexts)
    ]
    return with_facts(Case(), {"runtime.loads": loads})


def fires():
    return loaded(8192, 2048, 8192, 2048)


def test_two_contexts_in_turn():
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert "contexts of 2048 and 8192 tokens in turn" in report.findings[0].because
    assert report.findings[0].evidence[0].source == "log:0"


def test_the_first_request_loads():
    assert isinstance(ask(NAME, loaded(8192)), Absent)
    assert isinstance(ask(NAME, loaded(8192, 8192)), Absent)


def test_one_change_of_mind_among_many_loads_is_a_suspicion():
    answer = ask(NAME, loaded(8192, 8192, 8192, 4096))
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_models_that_take_turns():
    assert isinstance(ask(NAME, loaded(8192, 8192, 8192, models="aba")), Found)


def test_a_model_that_is_never_kept():
    unkept = with_facts(Case(), {"runtime.keep_alive_s": 0.0})
    assert isinstance(ask(NAME, saying(slow="first_token", case=unkept)), Found)
    assert isinstance(ask(NAME, saying(slow="decode", case=unkept)), CannotTell)


def test_what_somebody_saw():
    assert isinstance(ask(NAME, saying(Topic.RELOADS, "the runner restarts for every title")), Found)
    assert isinstance(ask(NAME, saying()), CannotTell)
    helped = ask(NAME, saying(Topic.RELOADS, "after the server is restarted it is fast", slow="decode"))
    assert isinstance(helped, CannotTell)
    assert helped.suspected
