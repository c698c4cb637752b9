from answers import ask
from cases import gpu_case, with_facts
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.run import Completion
from unslow.facts.snapshot import Case
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "speculative_decoding_hurts"


def fires():
    facts = {
        "runtime.sampling.draft_acceptance": 0.2,
        "runtime.sampling.draft_tokens": 8,
        "run.decode_tokens_per_s": 60.0,
    }
    return with_facts(gpu_case(), facts)


def test_acceptance_rate_of_20_percent_is_found():
    finding = judge(CaseView(fires())).findings[0]
    assert finding.cause == NAME
    assert "only 20%" in finding.because
    assert 1.5 < finding.speedup < 2.5


def test_acceptance_rate_of_80_percent_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.sampling.draft_acceptance": 0.8})), Absent)


def test_low_acceptance_rate_at_normal_speed_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 130.0})), Absent)


def test_trial_without_a_gain_is_found(wording):
    case = with_facts(Case(), {"runtime.sampling.draft_acceptance": 0.343})
    answer = ask(NAME, tried(10.8, 11.0, Topic.DRAFT, case=case))
    assert isinstance(answer, Found)
    wording(answer.because, tells="34%")


def test_trial_needs_to_say_which_side_drafted(wording):
    answer = ask(NAME, tried(10.0, 22.0, Topic.DRAFT))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    case = with_facts(Case(), {"runtime.sampling.speculative": "draft.gguf"})
    gain = tried(10.0, 22.0, Topic.DRAFT, case=case, text="plain 10 tok/s, with the draft 22 tok/s")
    assert not isinstance(ask(NAME, gain), Found)
    loss = ask(NAME, tried(10.0, 22.0, Topic.DRAFT, case=case, text="plain 22 tok/s, with the draft 10 tok/s"))
    assert isinstance(loss, Found)
    wording(loss.because, tells=("10", "22"))


def test_low_acceptance_rate_is_found_with_a_remark_of_no_gain():
    case = saying(
        slow="decode",
        case=with_facts(Case(), {"runtime.sampling.draft_acceptance": 0.2, "runtime.sampling.draft_tokens": 8}),
    )
    assert isinstance(ask(NAME, case), CannotTell)
    assert isinstance(ask(NAME, saying(Topic.NO_GAIN, "no speed-up at all", slow="decode", case=case)), Found)


def test_ngram_drafts_are_not_found():
    cheap = with_facts(fires(), {"runtime.sampling.speculative": "ngram-simple", "runtime.sampling.draft_tokens": 3})
    assert not isinstance(ask(NAME, with_facts(cheap, {"runtime.sampling.draft_acceptance": 0.3})), Found)


def test_command_line_without_draft_flags_is_ruled_out():
    plain = {"runtime.process.command": ["llama-server", "-m", "m.gguf"], "runtime.process.environment": {}}
    assert isinstance(ask(NAME, with_facts(gpu_case(), plain)), Absent)
    drafting = {
        "runtime.process.command": ["llama-server", "-m", "m.gguf", "--spec-type", "ngram"],
        "runtime.process.environment": {},
    }
    assert isinstance(ask(NAME, with_facts(gpu_case(), drafting)), CannotTell)


def test_draft_without_an_acceptance_rate_is_suspected():
    case = with_facts(gpu_case(), {"runtime.sampling.speculative": "draft.gguf", "run.decode_tokens_per_s": 30.0})
    answer = ask(NAME, case)
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert answer.missing == "runtime.sampling.draft_acceptance"


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


def test_acceptance_of_the_measured_requests_decides():
    answer = ask(NAME, drafting(800, 0, 20.0))
    assert isinstance(answer, Found)
    assert answer.evidence[0].fact == "run.completions"
    assert "0 of 800" in str(answer.evidence[0].value)
    assert isinstance(ask(NAME, drafting(100, 75, 20.0)), Absent)


def uncounted(pieces_at_once: float, *, timed_by_client: bool = True) -> Case:
    """A server that drafts four tokens and counts nothing; its answers came in steps of so many pieces."""
    run = Completion(
        prompt_tokens=8,
        generated_tokens=64,
        prefill_s=0.1,
        decode_s=2.0,
        pieces_at_once=pieces_at_once,
        timed_by_client=timed_by_client,
    )
    facts = {
        "runtime.sampling.speculative": "draft",
        "runtime.sampling.draft_tokens": 4,
        "run.completions": (run,),
        "run.decode_tokens_per_s": 32.0,
    }
    return with_facts(gpu_case(), facts)


def test_tokens_that_come_one_at_a_time_show_that_no_draft_is_accepted(wording):
    finding = judge(CaseView(uncounted(1.0))).findings[0]
    assert finding.cause == NAME
    wording(finding.because)


def test_tokens_that_come_together_show_accepted_drafts():
    assert isinstance(ask(NAME, uncounted(4.2)), Absent)


def test_a_server_with_counts_of_its_own_has_drafted_nothing():
    answer = ask(NAME, uncounted(1.0, timed_by_client=False))
    assert isinstance(answer, CannotTell)


def test_a_stream_that_shows_no_steps_leaves_the_draft_suspected():
    answer = ask(NAME, uncounted(0.0))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
