"""The first measurement: a warm-up, then three completions or until they agree; the median counts.

Prompts and protocol are those that the guides to slow inference share: a question that asks for a long answer, up to
512 tokens, three times. Every prompt is unique from its first word on, so that no prompt cache can answer it. Server
and client timings are kept apart.
"""

import re
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from unslow.facts.run import Completion, Run
from unslow.facts.values import Fact, Unknown, failed_fact, measured_fact, not_found, not_supported, reported_fact
from unslow.look.bench.prompts import PROMPTS
from unslow.look.bench.timing import (
    WatchedAnswer,
    complete_warm_up,
    decode_rate,
    note_answer,
    processors,
    watch_answer,
    watching,
    with_telemetry,
)
from unslow.look.requests import AskError, Plan, Target, TimedCompletion
from unslow.look.sampler import Sampler
from unslow.look.server_answers import objects_at, value_at
from unslow.look.system import LookError, System, convert_answer, try_look, was_closed

Tasks = dict[str, str]  # What each slot of the others works on, or worked on last

HOW_TO_COUNT_THINKING = (
    "ask it in your usual chat, and compare the tokens of `reasoning_content` with those of `content`"
)
_THINKS = re.compile(r"think|reasoning|<\|channel\|>", re.IGNORECASE)
"""What the templates of models that reason have in common: <think>, [THINK], enable_thinking, reasoning_effort."""

NOT_WATCHED = not_supported(
    "the GPU is not sampled during the measurement", "run `nvidia-smi dmon -s pucm` at the same time"
)

OPENINGS = ("Warming", "First", "Second", "Third")
FEWEST_TOKENS, MOST_TOKENS = 24, 512
FEWEST_TIMED = 8  # Tokens of an answer: a shorter one ended before it had a speed
MOST_ENDED = 4  # Answers that the model ends so early, or that the server breaks off
CONTINUED = " Here is the whole answer, step by step:\n\n1."
"""What leads a model on that takes a bare question, without the template of its chat, for the end of a text."""
COMPLETIONS = 3
MOST_SHARED = 5  # Responses beside another client's that are repeated: a client that is still there after these stays
SHARED = not_found(
    "other requests ran at the same time, so the speed of one alone is unknown", "try again when it is idle"
)
ENDED = not_found("the model ends its answers after a few tokens, so its speed is unknown", "ask it in your usual chat")

Progress = Callable[[str, float], None]  # Called with what is being done and the share of it that is done


class Repeats(NamedTuple):
    """How many completions: the fewest, and more while they are further apart than this share, up to the most."""

    fewest: int = COMPLETIONS
    most: int = COMPLETIONS
    apart: float = 0.0

    def enough(self, runs: Sequence[Completion], seconds: float) -> bool:
        """Whether no more are needed, or the time that all of them together should take is over."""
        spent = sum(run.client_total_s or run.prefill_s + run.decode_s for run in runs)
        if spent > seconds * self.most:
            return True
        if len(runs) < self.fewest or len(runs) >= self.most:
            return len(runs) >= self.fewest
        # More than half of them are as near to their median as two that are no further apart than allowed
        rates = [decode_rate(run) for run in runs]
        middle = statistics.median(rates)
        return sum(abs(rate - middle) <= self.apart / 2 * middle for rate in rates) > len(rates) / 2


THREE = Repeats()


def measure(system: System, target: Target, plan: Plan, progress: Progress, repeats: Repeats = THREE) -> Run:
    """Measure, and watch meanwhile; what was measured before a server fails is kept, with the reason for the rest."""
    with watching(system, target) as sampler:
        run = _measure_completions(system, target, plan, progress, sampler, repeats)
    return with_telemetry(system, run, sampler)


def _measure_completions(
    system: System, target: Target, plan: Plan, progress: Progress, sampler: Sampler, repeats: Repeats
) -> Run:
    stamp, done = system.now(), list[WatchedAnswer]()
    warm: WatchedAnswer | None = None
    shared = ended = 0
    may_think = may_think_unseen(system, target)
    try:
        progress("warming up", 0.0)
        warm = _warm_up(system, target, plan, _prompt(stamp, 0))
        if not warm or (warm.whole and not _is_timed(warm)):
            ended += 1
            warm = complete_warm_up(system, target, plan, _prompt(stamp, ended) + CONTINUED)
        rate = warm.timed.completion.generated_tokens / max(warm.timed.completion.decode_s, 1e-6)
        tokens = max(FEWEST_TOKENS, min(MOST_TOKENS, int(rate * plan.seconds_per_completion)))
        while max(shared - MOST_SHARED, ended - MOST_ENDED) < 0 and not repeats.enough(
            [seen.timed.completion for seen in done], plan.seconds_per_completion
        ):
            number = len(done) + 1
            most = f"{'' if repeats.fewest == repeats.most else 'up to '}{repeats.most}"
            progress(f"measuring, {number} of {most}: {tokens} tokens", number / (repeats.most + 1))
            before = read_tasks_of_others(system, target, plan)
            prompt = f"{_prompt(stamp, number + shared + ended)}{CONTINUED if ended else ''}"
            try:
                seen = watch_answer(system, target, plan, (prompt, tokens), sampler)
            except AskError as error:
                ended += 1
                if error.kind != "broke_off" or ended >= MOST_ENDED:
                    raise
                continue  # what a server can't parse or send it breaks off: the next answer is another text
            after = read_tasks_of_others(system, target, plan)
            told = before is not None and after is not None
            if told and (after != before or any(task.endswith(" at work") for task in (after or {}).values())):
                shared, tokens = shared + 1, max(FEWEST_TOKENS, tokens // 3)  # a short one fits between two of theirs
            elif seen.whole and not _is_timed(seen):
                ended += 1
            else:
                done.append(seen)
    except LookError as error:
        if warm and was_closed(error) and not shared and not any(seen.whole for seen in done):
            done += [warm] if _is_timed(warm) else []  # so slow that there was no time for more
        if not done and not shared:
            why = failed_fact(error.why, error.how_to_get)
            return Run(completions=why, decode_tokens_per_s=why)
    if not done:
        why = ENDED if ended and not shared else SHARED
        return Run(completions=why, decode_tokens_per_s=why)
    progress("measured", 1.0)
    # A short answer that is whole, be it the warm-up's, tells more than half of one
    short = [warm] if warm and warm.whole and _is_timed(warm) and not shared else done
    kept = [seen for seen in done if seen.whole] or short
    for seen in kept:
        note_answer(sampler, seen)
    facts = thinking_facts(target, [seen.timed for seen in kept], may_think=may_think)
    return msgspec.structs.replace(summarise_completions(kept, target.url), **facts)


def _warm_up(system: System, target: Target, plan: Plan, prompt: str) -> WatchedAnswer | None:
    """The first answer; None where the server broke it off."""
    try:
        return complete_warm_up(system, target, plan, prompt)
    except AskError as error:
        if error.kind != "broke_off":
            raise
        return None


def _is_timed(seen: WatchedAnswer) -> bool:
    return seen.timed.completion.generated_tokens >= FEWEST_TIMED


def read_tasks_of_others(system: System, target: Target, plan: Plan) -> Tasks | None:
    """The last task of every other slot; None where the server does not tell.

    Two looks show whether another client was answered at the same time, even by a request that came and went between:
    then a speed is not that of a server alone.
    """
    if plan.slot is None or not target.runtime.endswith("llama.cpp"):
        return None

    def read() -> Tasks:
        tasks = {}
        for slot in objects_at({"slots": target.server(system.live()).json("/slots")}, "slots"):
            if slot.get("id") != plan.slot:
                task = slot.get("id_task") if type(slot.get("id_task")) is int else ""
                tasks[str(slot.get("id"))] = f"{task}{' at work' if slot.get('is_processing') is True else ''}"
        return tasks

    return try_look(None, lambda: convert_answer(system.ask("slots of others", read), Tasks))


def thinking_facts(target: Target, done: Sequence[TimedCompletion], *, may_think: bool) -> dict[str, Any]:
    """The tokens that were thought and those that were said, by the names of their facts.

    llama-server's `/completion` leaves the chat template out, so that a model may answer at once that thinks first in a
    chat: only one whose template knows no thinking is known not to.
    """
    counts = [timed.thinking_tokens for timed in done]
    generated = sum(timed.completion.generated_tokens for timed in done)
    thought = sum(count for count in counts if count is not None)
    if None in counts:
        untold = "the server does not say which tokens were reasoning"
    elif thought or not may_think:
        source = f"{len(done)} answers at {target.url}"
        said = reported_fact(max(0, generated - thought), source)
        return {"thinking_tokens": reported_fact(thought, source), "answer_tokens": said}
    else:
        untold = "these completions used no chat template; with one, the model may reason first"
    return dict.fromkeys(("thinking_tokens", "answer_tokens"), not_found(untold, HOW_TO_COUNT_THINKING))


def may_think_unseen(system: System, target: Target) -> bool:
    """Whether a chat may show thinking where these answers show none: the template mentions it, or can't be read."""
    if not target.runtime.endswith("llama.cpp"):
        return False
    template = value_at(try_look(None, target.server(system).json, "/props"), "chat_template")
    return not isinstance(template, str) or bool(_THINKS.search(template))


def summarise_completions(done: Sequence[WatchedAnswer], url: str) -> Run:
    """Medians over the completions, and what the processors did in all of them."""
    runs = [w.timed.completion for w in done]
    source, clock = f"median of {len(runs)} completions at {url}", done[-1].timed.clock
    prefills = [c.prompt_tokens / c.prefill_s for c in runs if c.prefill_s > 0]
    prefill = _median(prefills, f"{source}, {clock}")
    if not all(w.timed.prompt_timed for w in done):
        prefill = not_found("the server does not time prefill, and these prompts are too short for the client's clock")
    clients = []
    for run in runs:
        if run.client_total_s is not None and run.client_first_token_s is not None and run.generated_tokens > 1:
            seconds = run.client_total_s - run.client_first_token_s
            clients += [(run.generated_tokens - 1) / seconds] if seconds > 0 else []
    waits = [c.waited_s / c.generated_tokens for c in runs if c.waited_s is not None]
    waiting: Fact[float] = Unknown(
        "the run-queue times of the runtime's threads can't be read", "run unslow as the same user"
    )
    if waits:
        waiting = measured_fact(statistics.median(waits), "/proc/PID/task/*/schedstat while generating")
    firsts = [c.client_first_token_s for c in runs if c.client_first_token_s is not None]
    return Run(
        completions=measured_fact(tuple(runs), url),
        decode_tokens_per_s=measured_fact(statistics.median(decode_rate(c) for c in runs), f"{source}, {clock}"),
        prefill_tokens_per_s=prefill,
        time_to_first_token_s=_median(firsts, f"{source}, client clock"),
        client_decode_tokens_per_s=_median(clients, f"{source}, client clock"),
        depth_tokens=measured_fact(int(statistics.median(c.prompt_tokens + c.generated_tokens / 2 for c in runs)), url),
        waiting_for_cpu_s_per_token=waiting,
        gpus=NOT_WATCHED,
        **processors([w.use for w in done]),
    )


def _median(values: Sequence[float], source: str) -> Fact[float]:
    return measured_fact(statistics.median(values), source) if values else not_found("no timing of this kind came back")


def _prompt(stamp: str, number: int) -> str:
    opening = OPENINGS[number] if number < len(OPENINGS) else f"{number}th"
    return f"{opening} request of {stamp}. {PROMPTS[number % len(PROMPTS)]}"
