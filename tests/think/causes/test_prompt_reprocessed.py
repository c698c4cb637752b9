from answers import ask
from cases import gpu_case, with_facts
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.run import LongPrompt, SeenPrompt, Traffic, Turn
from unslow.facts.snapshot import Case
from unslow.facts.values import estimated, measured
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "prompt_reprocessed"


def fires():
    return with_facts(gpu_case(), {"runtime.prompts_reprocessed": 7})


def test_what_the_log_counts_stands_beside_a_good_speed_of_decoding():
    report = judge(fires())
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME
    assert "7 times" in report.findings[0].because


def test_near_miss_the_first_turn_reads_everything():
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


def conversation(*computed: int, first_s: float | None = None):
    turns = tuple(
        Turn(prompt_tokens=1024 + 160 * i, new_tokens=160 if i else 1024, computed_tokens=c, first_token_s=first_s)
        for i, c in enumerate(computed)
    )
    return with_facts(gpu_case(), {"run.turns": measured(turns, "three turns")})


def test_a_conversation_that_was_just_held_decides_and_is_priced():
    answer = ask(NAME, conversation(1024, 1184, 1344, first_s=2.0))
    assert isinstance(answer, Found)
    assert answer.lost.per == "request"
    assert 1.7 < answer.lost.seconds < 1.8
    assert judge(conversation(1024, 1184, 1344)).findings[0].cause == NAME


def test_near_miss_only_what_is_new_is_computed():
    assert isinstance(ask(NAME, conversation(1024, 161, 175)), Absent)
    assert isinstance(ask(NAME, conversation(1024)), CannotTell)


def test_a_conversation_that_is_kept_does_not_outweigh_what_the_log_counts():
    case = with_facts(conversation(1024, 161, 175), {"runtime.prompts_reprocessed": 7})
    assert isinstance(ask(NAME, case), Found)


def test_a_cache_that_is_off_without_a_trial_is_a_suspicion():
    off = with_facts(gpu_case(), {"runtime.prompt_cache": False, "runtime.prompts_reprocessed": 0})
    answer = ask(NAME, off)
    assert isinstance(answer, CannotTell)
    assert answer.missing == "run.turns"


def watched(*prompts, logged=()):
    seen = tuple(SeenPrompt(slot=0, tokens=tokens, cached_tokens=cached) for tokens, cached in prompts)
    traffic = Traffic(seconds=6, looks=12, running=1, waiting=0, prompts=measured(seen, "/slots"))
    return with_facts(gpu_case(), {"run.traffic": traffic, "run.logged_prompts": logged})


def test_long_prompts_of_others_of_which_nothing_is_kept():
    assert isinstance(ask(NAME, watched((552, 0), (568, 2), (536, 0))), Found)
    assert isinstance(ask(NAME, watched((552, 0), logged=(40, 536, 544))), Found)


def test_near_miss_prompts_of_others_that_are_kept_or_unlike():
    assert isinstance(ask(NAME, watched((552, 540), (568, 550), (900, 0))), Absent)
    assert ask(NAME, watched((552, 0), (4000, 0), (900, 0))).suspected, "texts of all kinds are no conversation"
    assert not ask(NAME, watched((552, 0), logged=(536, 544, 12))).suspected, "one cold prompt may begin a conversation"
    assert not ask(NAME, watched((40, 0), (50, 0), (60, 0))).suspected


def lost_tokens(*prompts, logged=()):
    """What is priced, in tokens of a prompt, at a thousand of them in a second."""
    read = {"run.prefill_tokens_per_s": 1000.0, "run.long_prompt": LongPrompt(tokens=2000, seconds=2.0)}
    return round(1000 * ask(NAME, with_facts(watched(*prompts, logged=logged), read)).lost.seconds)


def test_only_what_was_read_before_is_priced():
    assert lost_tokens((1000, 0), (1000, 0), (1000, 0)) == 1000
    assert lost_tokens((1000, 0), (1100, 0), (1200, 0)) == 1050, "what a turn adds is new"
    assert lost_tokens((1000, 400), (1000, 400), (1000, 400)) == 600, "what was kept was not computed"
    assert lost_tokens((1200, 0), logged=(1000, 1100)) == 1050, "the log's requests came before, in their order"


def test_the_words_tell_how_much_had_been_kept(wording):
    wording(ask(NAME, watched((552, 0), (568, 2), (536, 0))).because)
    assert "only 40%" in ask(NAME, watched((1000, 400), (1000, 400), (1000, 400))).because


def test_sliding_windows_are_kept_as_a_whole_first():
    counted = {"runtime.prompts_reprocessed": 4, "model.architecture": "gemma3"}
    first = ask(NAME, with_facts(gpu_case(), counted)).remedies[0].change
    assert first.value == "swa-full"
    kept = ask(NAME, with_facts(gpu_case(), counted | {"runtime.swa_full": True})).remedies
    plain = ask(NAME, with_facts(gpu_case(), counted | {"model.architecture": "llama"})).remedies
    assert [remedy.change.value for remedy in (*kept, *plain)] == [True, True]


def test_what_times_suggest_the_servers_own_count_of_hits_overrides():
    """A healthy vLLM with prefix caching: times of milliseconds made of the noise between them a whole prompt."""
    turns = tuple(
        Turn(prompt_tokens=1280 + 120 * n, new_tokens=120 if n else 1280, computed_tokens=1280 + 120 * n)
        for n in range(3)
    )
    guessed = {"run.turns": estimated(turns, "times to the first token")}
    assert isinstance(ask(NAME, with_facts(gpu_case(), guessed)), Found)
    counted = {"runtime.prompt_cache": True, "runtime.prefix_hit_rate": 0.38}
    answer = ask(NAME, with_facts(gpu_case(), guessed | counted))
    assert isinstance(answer, Absent)
    assert "38%" in answer.because
    off = {"runtime.prompt_cache": False, "runtime.prefix_hit_rate": 0.0}
    assert isinstance(ask(NAME, with_facts(gpu_case(), guessed | off)), Found)
    told = {"run.turns": measured(turns, "counted")}
    assert isinstance(ask(NAME, with_facts(gpu_case(), told | counted)), Found)
