from answers import ask
from cases import gpu_case, with_facts
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.run import Completion
from unslow.facts.snapshot import Case
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "speculative_decoding_hurts"


def fires():
    facts = {"runtime.draft_acceptance": 0.2, "runtime.draft_tokens": 8, "run.decode_tokens_per_s": 60.0}
    return with_facts(gpu_case(), facts)


def test_one_in_five_is_accepted():
    finding = judge(fires()).findings[0]
    assert finding.cause == NAME
    assert "only 20%" in finding.because
    assert 1.5 < finding.speedup < 2.5


def test_near_miss_a_draft_that_is_accepted():
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.draft_acceptance": 0.8})), Absent)


def test_near_miss_a_speed_that_does_not_suffer():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 130.0})), Absent)


def test_no_gain_in_a_trial_is_proof(wording):
    case = with_facts(Case(), {"runtime.draft_acceptance": 0.343})
    answer = ask(NAME, tried(10.8, 11.0, Topic.DRAFT, case=case))
    assert isinstance(answer, Found)
    wording(answer.because, tells="34%")


def test_a_trial_that_does_not_say_which_side_drafted(wording):
    answer = ask(NAME, tried(10.0, 22.0, Topic.DRAFT))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    case = with_facts(Case(), {"runtime.speculative": "draft.gguf"})
    gain = tried(10.0, 22.0, Topic.DRAFT, case=case, text="plain 10 tok/s, with the draft 22 tok/s")
    assert not isinstance(ask(NAME, gain), Found)
    loss = ask(NAME, tried(10.0, 22.0, Topic.DRAFT, case=case, text="plain 22 tok/s, with the draft 10 tok/s"))
    assert isinstance(loss, Found)
    wording(loss.because, tells=("10", "22"))


def test_a_low_acceptance_and_a_complaint():
    case = saying(slow="decode", case=with_facts(Case(), {"runtime.draft_acceptance": 0.2, "runtime.draft_tokens": 8}))
    assert isinstance(ask(NAME, case), CannotTell)
    assert isinstance(ask(NAME, saying(Topic.NO_GAIN, "no speed-up at all", slow="decode", case=case)), Found)


def test_near_miss_guesses_from_the_text_cost_next_to_nothing():
    cheap = with_facts(fires(), {"runtime.speculative": "ngram-simple", "runtime.draft_tokens": 3})
    assert not isinstance(ask(NAME, with_facts(cheap, {"runtime.draft_acceptance": 0.3})), Found)


def test_near_miss_a_server_that_was_started_without_a_draft():
    plain = {"runtime.command": ["llama-server", "-m", "m.gguf"], "runtime.environment": {}}
    assert isinstance(ask(NAME, with_facts(gpu_case(), plain)), Absent)
    drafting = {"runtime.command": ["llama-server", "-m", "m.gguf", "--spec-type", "ngram"], "runtime.environment": {}}
    assert isinstance(ask(NAME, with_facts(gpu_case(), drafting)), CannotTell)


def test_a_draft_whose_acceptance_nobody_counted_is_a_suspicion():
    case = with_facts(gpu_case(), {"runtime.speculative": "draft.gguf", "run.decode_tokens_per_s": 30.0})
    answer = ask(NAME, case)
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert answer.missing == "runtime.draft_acceptance"


def drafting(drafted, accepted, rate):
    done = Completion(
        prompt_tokens=40,
        generated_tokens=100,
        prefill_s=0.1,
        decode_s=100 / rate,
        drafted_tokens=drafted,
        accepted_tokens=accepted,
    )
    return with_facts(gpu_case(), {"run.completions": (done,), "run.decode_tokens_per_s": rate})


def test_what_the_measured_answers_count_decides():
    answer = ask(NAME, drafting(800, 0, 20.0))
    assert isinstance(answer, Found)
    assert answer.evidence[0].fact == "run.completions"
    assert "0 of 800" in str(answer.evidence[0].value)
    assert isinstance(ask(NAME, drafting(100, 75, 20.0)), Absent)
