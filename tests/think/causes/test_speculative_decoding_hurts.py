from answers import ask
from cases import gpu_case, with_facts
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "speculative_decoding_hurts"


def fires():
    facts = {"runtime.draft_acceptance": 0.2, "runtime.draft_tokens": 8, "run.decode_tokens_per_s": 60.0}
    return with_facts(gpu_case(), facts)


def test_one_in_five_is_accepted():
    finding = judge(fires()).findings[0]
    assert finding.cause == NAME
    assert "only 20%" in finding.because
    assert 1.5 < finding.speedup < 2


def test_a_draft_that_is_accepted():
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.draft_acceptance": 0.8})), Absent)


def test_a_speed_that_does_not_suffer():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 130.0})), Absent)


def test_no_gain_in_a_trial_is_proof():
    case = with_facts(Case(), {"runtime.draft_acceptance": 0.343})
    answer = ask(NAME, tried(10.8, 11.0, Topic.DRAFT, case=case))
    assert isinstance(answer, Found)
    assert "34% of the draft is accepted" in answer.because


def test_a_trial_that_does_not_say_which_side_drafted():
    answer = ask(NAME, tried(10.0, 22.0, Topic.DRAFT))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    case = with_facts(Case(), {"runtime.speculative": "draft.gguf"})
    assert isinstance(ask(NAME, tried(10.0, 22.0, Topic.DRAFT, case=case)), Found)


def test_a_low_acceptance_and_a_complaint():
    case = saying(slow="decode", case=with_facts(Case(), {"runtime.draft_acceptance": 0.2, "runtime.draft_tokens": 8}))
    assert isinstance(ask(NAME, case), CannotTell)
    assert isinstance(ask(NAME, saying(Topic.NO_GAIN, "no speed-up at all", slow="decode", case=case)), Found)
