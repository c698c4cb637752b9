"""Tokens come as fast as they should, and most of them are thinking that nobody reads.

## Why it is slow
A reasoning model writes hundreds or thousands of tokens to itself before the answer. The speed is right; the wait is
the thinking.

## How to confirm
Count the tokens of the reasoning against those of the answer (`reasoning_content`, `thinking`, the text between
`<think>` and `</think>`).

## What it is not
A little thought before a long answer. Nor tokens that come slowly: then the speed itself has a cause.

## How to fix
Less effort, or a model that does not reason for questions that do not need it. llama.cpp: `--reasoning-budget 0`, or
`"chat_template_kwargs": {"enable_thinking": false}` in the request; Ollama: `think: false`, `--think=false`; vLLM,
SGLang: `chat_template_kwargs`; LM Studio: Think off; Transformers: `enable_thinking=False` in `apply_chat_template`;
gpt-oss anywhere: `reasoning_effort: low`; Qwen3: `/no_think`.

## Safety
Answers to hard questions get worse with less thinking.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.narrative import experiment_on, is_clear, is_report, names_phase, remarks_on, slow_side_has
from unslow.think.case.prediction import measured_rate
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import ask_for, cite, cite_remarks, found_by_trial
from unslow.think.report import Cost

MOSTLY = 3.0  # Times the answer: with less thinking than this, most of what was waited for could be read
LONG = 200  # Tokens of thinking that one hardly notices
SHOW = "{try_less_thinking}"
_LESS = Remedy(
    Knob.THINKING.to(None, "less reasoning effort, or a model that does not reason"), None, "worse on hard questions"
)


def _by_tokens(case: Case) -> Found | Absent:
    thinking, answer = ask_for(case, "run.thinking_tokens", SHOW), ask_for(case, "run.answer_tokens", SHOW)
    if thinking < LONG or thinking < MOSTLY * answer:
        return Absent(f"{thinking} tokens of thinking, {answer} of the answer")
    words = f"{thinking} tokens of thinking come before {answer} of the answer"
    evidence = (cite(case, "run.thinking_tokens"), cite(case, "run.answer_tokens"))
    found, rate = _found(words, evidence, (thinking + answer) / max(1, answer)), measured_rate(case)
    return found._replace(lost=Cost(seconds=thinking / rate.value, per="request")) if isinstance(rate, Known) else found


def _by_trial(case: Case) -> Found | None:
    tried = experiment_on(case, Topic.THINKING, metrics=("first_token",))
    if (
        tried is None
        or not is_clear(tried)
        or tried.metric == "decode"
        or slow_side_has(tried, Topic.THINKING) is False
    ):
        return None
    return found_by_trial(case, tried, "without thinking it", _LESS)._replace(apart=True)


def _by_words(case: Case) -> Found | Suspected | None:
    """Somebody who sees it think before it answers, and waits for the answer; the speed itself is no complaint then."""
    said, named = remarks_on(case, Topic.LONG_THINKING), remarks_on(case, Topic.THINKING)
    if not said:
        return Suspected(named[0].text, "how many tokens are thinking", SHOW) if named else None
    slow_tokens = names_phase(case, "decode") and isinstance(case.run.decode_tokens_per_s, Known)
    if slow_tokens or names_phase(case, "load") or not is_report(case):
        return Suspected(said[0].text, "how many tokens are thinking", SHOW)
    return _found(f"the model thinks before it answers: {said[0].text}", cite_remarks(case, said[:1]), None)


def _found(because: str, evidence: Citations, speedup: float | None) -> Found:
    # it is generated like any answer: the time on the way to the server, by which its phase is measured, is another
    return Found(because, evidence, remedies=(_LESS,), speedup=speedup, apart=True)


CAUSE = Cause(
    title="The answer is mostly thinking",
    phase="client",
    needs=(("run.thinking_tokens", "account.comparisons", "account.remarks"),),
    check=check_by(_by_tokens, _by_trial, _by_words),
    ask=SHOW,
)
