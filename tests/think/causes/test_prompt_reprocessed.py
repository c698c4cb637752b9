from answers import ask
from cases import gpu_case, with_facts
from engines import vllm
from made_up_telemetry import traffic
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.run import LongPrompt, SeenPrompt, Traffic, Turn
from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown, estimated_fact, measured_fact, reported_fact
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "prompt_reprocessed"


def fires():
    return with_facts(gpu_case(), {"runtime.history.prompts_reprocessed": 7})


def test_logged_reprocessing_is_found_though_decode_is_fast(wording):
    report = judge(CaseView(fires()))
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells="7")


def test_no_logged_reprocessing_is_ruled_out_and_one_is_suspected():
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.history.prompts_reprocessed": 0})), Absent)
    answer = ask(NAME, with_facts(gpu_case(), {"runtime.history.prompts_reprocessed": 1}))
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_one_logged_reprocessing_is_found_with_a_complaint():
    case = saying(slow="first_token", case=with_facts(Case(), {"runtime.history.prompts_reprocessed": 1}))
    assert isinstance(ask(NAME, case), Found)


def test_remark_about_cold_prefill_at_every_turn_is_found():
    case = saying(Topic.PROMPT_AGAIN, "entry refused, every following turn prefills cold")
    assert judge(CaseView(case)).findings[0].cause == NAME


def test_slow_long_conversations_alone_give_cannot_tell():
    answer = ask(NAME, saying(Topic.DEPTH, "after dozens of turns every reply is slow", slow="prefill"))
    assert isinstance(answer, CannotTell)
    assert "n_past" in answer.how_to_get


def test_trial_with_the_cache_counts_for_prefill_not_decode():
    assert isinstance(ask(NAME, tried(97.0, 843.0, Topic.CACHE, metric="prefill")), Found)
    assert not isinstance(ask(NAME, tried(7.8, 9.0, Topic.CACHE, metric="decode")), Found)


def test_prompt_cache_off_is_found_where_the_first_token_is_slow():
    off = with_facts(Case(), {"runtime.cache.prompt_cache": False})
    assert isinstance(ask(NAME, saying(slow="first_token", case=off)), Found)
    assert isinstance(ask(NAME, saying(slow="decode", case=off)), CannotTell)


def conversation(*computed: int, first_s: float | None = None):
    turns = tuple(
        Turn(prompt_tokens=1024 + 160 * i, new_tokens=160 if i else 1024, computed_tokens=c, first_token_s=first_s)
        for i, c in enumerate(computed)
    )
    return with_facts(gpu_case(), {"run.turns": measured_fact(turns, "three turns")})


def test_conversation_computed_in_full_is_found_and_priced():
    answer = ask(NAME, conversation(1024, 1184, 1344, first_s=2.0))
    assert isinstance(answer, Found)
    assert answer.lost.per == "request"
    assert 1.7 < answer.lost.seconds < 1.8
    assert judge(CaseView(conversation(1024, 1184, 1344))).findings[0].cause == NAME


def test_conversation_that_computes_only_new_tokens_is_ruled_out():
    assert isinstance(ask(NAME, conversation(1024, 161, 175)), Absent)
    assert isinstance(ask(NAME, conversation(1024)), CannotTell)


def test_logged_reprocessing_overrides_one_cached_conversation():
    case = with_facts(conversation(1024, 161, 175), {"runtime.history.prompts_reprocessed": 7})
    assert isinstance(ask(NAME, case), Found)


def test_prompt_cache_off_without_a_measurement_is_suspected():
    off = with_facts(gpu_case(), {"runtime.cache.prompt_cache": False, "runtime.history.prompts_reprocessed": 0})
    answer = ask(NAME, off)
    assert isinstance(answer, CannotTell)
    assert answer.missing == "run.turns"


def watched(*prompts, logged=()):
    seen = tuple(SeenPrompt(slot=0, tokens=tokens, cached_tokens=cached) for tokens, cached in prompts)
    traffic = Traffic(seconds=6, looks=12, running=1, waiting=0, prompts=measured_fact(seen, "/slots"))
    return with_facts(gpu_case(), {"run.traffic": traffic, "run.logged_prompts": logged})


def test_uncached_prompts_of_other_clients_are_found():
    assert isinstance(ask(NAME, watched((552, 0), (568, 2), (536, 0))), Found)
    assert isinstance(ask(NAME, watched((552, 0), logged=(40, 536, 544))), Found)


def test_cached_unlike_or_short_prompts_of_other_clients_are_not_found():
    assert isinstance(ask(NAME, watched((552, 540), (568, 550), (900, 0))), Absent)
    assert ask(NAME, watched((552, 0), (4000, 0), (900, 0))).suspected, "unlike lengths are not one conversation"
    assert not ask(NAME, watched((552, 0), logged=(536, 544, 12))).suspected, "one cold prompt may start a conversation"
    assert not ask(NAME, watched((40, 0), (50, 0), (60, 0))).suspected


def lost_tokens(*prompts, logged=()):
    """What is priced, in prompt tokens, at 1,000 tok/s."""
    read = {"run.prefill_tokens_per_s": 1000.0, "run.long_prompt": LongPrompt(tokens=2000, seconds=2.0)}
    return round(1000 * ask(NAME, with_facts(watched(*prompts, logged=logged), read)).lost.seconds)


def working(*logged, running=1.0):
    """A server like MLX-LM's, which tells how many requests it has, and of their prompts only what it computed."""
    traffic = Traffic(seconds=6, looks=12, running=running, waiting=0)
    return with_facts(gpu_case(), {"run.traffic": traffic, "run.logged_prompts": logged})


def test_long_prompts_in_a_row_are_found_by_the_log_of_a_server_at_work():
    assert isinstance(ask(NAME, working(12, 290, 298, 306)), Found)
    assert not isinstance(ask(NAME, working(290, 298, 12, 306)), Found)  # of a conversation it kept the start
    assert not isinstance(ask(NAME, working(290, 298, 306, running=0.0)), Found)
    unlike = ask(NAME, working(290, 900, 306))
    assert isinstance(unlike, CannotTell)
    assert unlike.suspected


def test_price_counts_only_tokens_of_the_prompt_before():
    assert lost_tokens((1000, 0), (1000, 0), (1000, 0)) == 1000
    assert lost_tokens((1000, 0), (1100, 0), (1200, 0)) == 1050, "what a turn adds is new"
    assert lost_tokens((1000, 400), (1000, 400), (1000, 400)) == 600, "cached tokens were not computed"
    assert lost_tokens((1200, 0), logged=(1000, 1100)) == 1050, "logged requests came before, in their order"


def test_sentence_names_the_cached_share(wording):
    wording(ask(NAME, watched((552, 0), (568, 2), (536, 0))).because)
    assert "only 40%" in ask(NAME, watched((1000, 400), (1000, 400), (1000, 400))).because


def test_first_fix_is_swa_full_for_sliding_windows():
    counted = {"runtime.history.prompts_reprocessed": 4, "model.architecture": "gemma3"}
    first = ask(NAME, with_facts(gpu_case(), counted)).remedies[0].change
    assert first.value == "swa-full"
    kept = ask(NAME, with_facts(gpu_case(), counted | {"runtime.cache.swa_full": True})).remedies
    plain = ask(NAME, with_facts(gpu_case(), counted | {"model.architecture": "llama"})).remedies
    assert [remedy.change.value for remedy in (*kept, *plain)] == [True, True]


def test_prefix_hit_rate_overrides_estimated_turns():
    """A healthy vLLM with prefix caching: noise of milliseconds made the estimate a whole prompt."""
    turns = tuple(
        Turn(prompt_tokens=1280 + 120 * n, new_tokens=120 if n else 1280, computed_tokens=1280 + 120 * n)
        for n in range(3)
    )
    guessed = {"run.turns": estimated_fact(turns, "times to the first token")}
    assert isinstance(ask(NAME, with_facts(gpu_case(), guessed)), Found)
    counted = {"runtime.cache.prompt_cache": True, "runtime.cache.prefix_hit_rate": 0.38}
    answer = ask(NAME, with_facts(gpu_case(), guessed | counted))
    assert isinstance(answer, Absent)
    assert "38%" in answer.because
    off = {"runtime.cache.prompt_cache": False, "runtime.cache.prefix_hit_rate": 0.0}
    assert isinstance(ask(NAME, with_facts(gpu_case(), guessed | off)), Found)
    told = {"run.turns": measured_fact(turns, "counted")}
    assert isinstance(ask(NAME, with_facts(gpu_case(), told | counted)), Found)


def busy(prompts_per_s: float, *, kept: object):
    load = traffic(4.0, 0.5, prompt_tokens_per_s=measured_fact(prompts_per_s, "looks"), each_among=4.0,
                   each_tokens_per_s=measured_fact(20.0, "looks"))  # fmt: skip
    facts = {"run.traffic": load, "run.decode_tokens_per_s": Unknown("not alone"), "runtime.cache.prompt_cache": kept}
    return vllm(**facts)


def test_a_cache_that_is_switched_off_is_found_where_prompts_take_most_of_the_time(wording):
    answer = ask(NAME, busy(1e5, kept=reported_fact(value=False, source="/metrics")))
    assert isinstance(answer, Found)
    wording(answer.because, tells="switched off")
    by_default = ask(NAME, busy(1e5, kept=estimated_fact(value=False, source="default of vLLM 0.7")))
    few_prompts = ask(NAME, busy(10.0, kept=reported_fact(value=False, source="/metrics")))
    assert [isinstance(one, CannotTell) for one in (by_default, few_prompts)] == [True, True]
    assert not isinstance(ask(NAME, busy(1e5, kept=reported_fact(value=True, source="/metrics"))), Found)
