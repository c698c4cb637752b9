"""Tokens arrive as fast as they should, but most of them are reasoning that is never read.

## Why it is slow
A reasoning model generates hundreds or thousands of tokens for itself before the answer. The speed is right; the wait
is the thinking.

## How to confirm
Compare the number of reasoning tokens with the number of answer tokens (`reasoning_content`, `thinking`, the text
between `<think>` and `</think>`).

## What it is not
A little thinking before a long answer. Nor tokens that arrive slowly: then decode itself has a cause.

## How to fix
Less reasoning effort, or a model that does not reason for questions that do not need it. llama.cpp:
`--reasoning-budget 0`, or `"chat_template_kwargs": {"enable_thinking": false}` in the request; Ollama: `think: false`,
`--think=false`; vLLM, SGLang: `chat_template_kwargs`; LM Studio: Think off; Transformers: `enable_thinking=False` in
`apply_chat_template`; gpt-oss anywhere: `reasoning_effort: low`; Qwen3: `/no_think`.

## Safety
Answers to hard questions get worse with less thinking.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.narrative import is_clear, slow_side_has, times_as_fast
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding
from unslow.think.report import Cost

MOSTLY = 3.0  # Times the answer: with less thinking, most of what was generated could be read
LONG = 200  # Tokens: fewer are hardly noticed
SHOW = "{try_less_thinking}"
COUNT = "how many tokens are thinking"
LESS = Remedy(
    Knob.THINKING.to(None, "less reasoning effort, or a model that does not reason"), None, "worse on hard questions"
)


# Every finding stands apart: thinking is decoded like any answer, and its phase is measured as the way to the server
def counted_tokens(case: CaseView) -> Found | Absent:
    """Thinking tokens against answer tokens."""
    thinking, answer = case.ask_for("run.thinking_tokens", SHOW), case.ask_for("run.answer_tokens", SHOW)
    if thinking < LONG or thinking < MOSTLY * answer:
        return Absent(f"{thinking} thinking tokens, {answer} answer tokens")
    rate = case.speed.measured_rate.get()
    return finding(
        case,
        f"{thinking} thinking tokens come before {answer} answer tokens",
        "run.thinking_tokens",
        "run.answer_tokens",
        fixes=[LESS],
        speedup=(thinking + answer) / max(1, answer),
        lost=Cost(seconds=thinking / rate, per="request") if rate is not None else None,
        apart=True,
    )


def tried_by_person(case: CaseView) -> Found | None:
    """The same request without thinking was clearly faster."""
    trial = case.narrative.experiment_on(Topic.THINKING, metrics=("first_token",))
    if trial is None or not is_clear(trial) or trial.metric == "decode":
        return None
    if slow_side_has(trial, Topic.THINKING) is False:
        return None
    return finding(case, f"without thinking it is {times_as_fast(trial)}", fixes=[LESS], trial=trial, apart=True)


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """The report says that the model thinks for long before it answers, and not that its tokens are slow."""
    said, named = case.narrative.remarks_on(Topic.LONG_THINKING), case.narrative.remarks_on(Topic.THINKING)
    if not said:
        return Suspected(named[0].text, COUNT, SHOW) if named else None
    slow_tokens = case.narrative.names_phase("decode") and isinstance(case.run.decode_tokens_per_s, Known)
    if slow_tokens or case.narrative.names_phase("load") or not case.narrative.is_report:
        return Suspected(said[0].text, COUNT, SHOW)
    words = f"the model thinks before it answers: {said[0].text}"
    return finding(case, words, said[0], fixes=[LESS], apart=True)


CAUSE = Cause(
    title="The answer is mostly thinking",
    phase="client",
    needs=all_of("run.thinking_tokens or account.comparisons or account.remarks"),
    routes=(Route("measured", counted_tokens), Route("told", tried_by_person), Route("told", said_by_person)),
    ask=SHOW,
)
