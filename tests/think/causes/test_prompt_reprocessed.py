from answers import ask
from cases import gpu_case, with_facts
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "prompt_reprocessed"


def fires():
    return with_facts(gpu_case(), {"runtime.prompts_reprocessed": 7})


def test_what_the_log_counts_stands_beside_a_good_speed_of_decoding():
    report = judge(fires())
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME
    assert "7 times" in report.findings[0].because


def test_the_first_turn_reads_everything():
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.prompts_reprocessed": 0})), Absent)
    answer = ask(NAME, with_facts(gpu_case(), {"runtime.prompts_reprocessed": 1}))
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_once_is_enough_where_somebody_complains():
    case = saying(slow="first_token", case=with_facts(Case(), {"runtime.prompts_reprocessed": 1}))
    assert isinstance(ask(NAME, case), Found)


def test_whoever_sees_every_turn_read_everything_tells_the_cause():
    case = saying(Topic.PROMPT_AGAIN, "entry refused, every following turn prefills cold")
    assert judge(case).findings[0].cause == NAME


def test_long_conversations_alone_are_no_proof():
    answer = ask(NAME, saying(Topic.DEPTH, "after dozens of turns every reply is slow", slow="prefill"))
    assert isinstance(answer, CannotTell)
    assert "n_past" in answer.how_to_get


def test_a_trial_with_the_cache():
    assert isinstance(ask(NAME, tried(97.0, 843.0, Topic.CACHE, metric="prefill")), Found)
    assert not isinstance(ask(NAME, tried(7.8, 9.0, Topic.CACHE, metric="decode")), Found)


def test_a_cache_that_is_off_and_slow_first_tokens():
    off = with_facts(Case(), {"runtime.prompt_cache": False})
    assert isinstance(ask(NAME, saying(slow="first_token", case=off)), Found)
    assert isinstance(ask(NAME, saying(slow="decode", case=off)), CannotTell)
