"""The whole prompt is processed again at every turn, not only what is new in it.

## Why it is slow
A runtime keeps the KV cache of the conversation so far, and a new turn needs prefill only for its own tokens. Where
that cache cannot be used (the start of the prompt changes, prompt caching is off, the cache is too small or was given
to another conversation, or the model's kind of memory cannot be rewound), everything is computed again, and each turn
takes longer than the one before.

## How to confirm
Send a question, then the same conversation with one more question: `unslow` does that when the server is idle. The
number of prompt tokens processed is about the whole conversation, turn by turn (`prompt eval time = ... / N
tokens`), or the log says "forcing full prompt re-processing" (llama.cpp from build 9151 on only with `-lv 4`).

## What it is not
The first turn, which always processes the whole prompt; nor a conversation whose start really changed.

## How to fix
Keep the start of the prompt the same (no clock, no changing tool list before the conversation) and give each client
its own slot. llama.cpp: drop `--no-cache-prompt`, `--cache-ram` larger, `--cache-reuse 256`, for sliding windows
`--swa-full`, more slots (`-np`). vLLM: `--enable-prefix-caching`; SGLang: without `--disable-radix-cache`. LM Studio:
as many slots as conversations (`--parallel`). MLX: a larger `--prompt-cache-size`. Transformers: pass
`past_key_values` on to the next `generate`. Ollama: fewer models and clients that take turns, or
`OLLAMA_NUM_PARALLEL`. Background requests of a user interface (titles, suggestions) take the slot away: switch them
off.

## Safety
Answers do not change. A larger cache takes memory.
"""

import statistics
from itertools import pairwise, takewhile
from typing import Any

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.run import SeenPrompt
from unslow.facts.values import Known, Origin
from unslow.think.case.narrative import is_clear, slow_side_has, times_as_fast
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding
from unslow.think.report import Cost, Evidence

LEAST_AGAIN = 64  # Tokens: any chat template that closes a turn otherwise than it was generated computes fewer again
MOST_KEPT = 0.5  # Of the earlier turns: a runtime that computes more again has not kept the conversation
HARDLY = 0.05  # Of the prompt tokens: fewer cached ones are the start of a template
SEVERAL = 2  # Log lines without a complaint: one is a conversation that started over
LONG_PROMPT, ALIKE = 256, 0.25
"""Turns of one conversation are about as long as the one before; unrelated prompts are not."""
IN_A_ROW = 3  # Prompts of one length: two may be alike by chance
MOSTLY = 0.5  # Of the time: then prompts are what answers wait for
OFF = "prompt caching is off"
SHOW = "`unslow` while the server is idle; or {turns}"


def held_conversation(case: CaseView) -> Found | Absent | None:
    """A conversation held during the measurement: how many tokens its last turn computed, and how many were new."""
    turns, cache = case.run.turns, case.runtime.cache
    later = [turn for turn in (turns.value[1:] if isinstance(turns, Known) else ()) if turn.prompt_tokens]
    if not isinstance(turns, Known) or not later:
        return None
    hits = cache.prefix_hit_rate.get()
    if turns.origin is Origin.ESTIMATED and cache.prompt_cache.get() is True and hits is not None and hits >= HARDLY:
        # The server's own count of hits overrides what times to first token suggest
        return Absent(f"prefix caching is on, and {hits:.0%} of the prompt tokens were cache hits")
    last = later[-1]
    again = max(0, last.computed_tokens - last.new_tokens)
    words = f"the next turn of a conversation computed {last.computed_tokens} of {last.prompt_tokens} tokens"
    if again < max(LEAST_AGAIN, MOST_KEPT * (last.prompt_tokens - last.new_tokens)):
        # One conversation that is kept does not prove that all are: the log counts those of others
        times = case.runtime.history.prompts_reprocessed.get()
        if times is not None and times >= SEVERAL:
            return _prompts_read_again(case, times)
        return Absent(f"{words}, and {last.new_tokens} were new")
    # Prefill speed: of a long prompt, else of this turn
    rate = case.speed.prompt_speed.get()
    if rate is None and last.first_token_s:
        rate = last.computed_tokens / last.first_token_s
    return finding(
        case,
        f"{words}, although only {last.new_tokens} were new",
        case.cite("run.turns", words=f"{last.computed_tokens} computed, {last.new_tokens} new"),
        fixes=[keep_prompts(case)],
        speedup=last.computed_tokens / max(1, last.new_tokens),
        lost=Cost(seconds=again / rate, per="request") if rate else None,
    )


def watched_prompts(case: CaseView) -> Found | Absent | Suspected | None:
    """Long prompts of other clients while the server was watched: how much of each was cached."""
    traffic = case.run.traffic.get()
    prompts = traffic.prompts if traffic else None
    long = [prompt for prompt in prompts.value if prompt.tokens >= LONG_PROMPT] if isinstance(prompts, Known) else []
    if not isinstance(prompts, Known) or not long:
        return None
    missed = [prompt for prompt in long if prompt.cached_tokens < MOST_KEPT * prompt.tokens]
    if len(missed) <= len(long) / 2:
        return Absent(f"{len(long) - len(missed)} of {len(long)} long prompts were mostly cached")
    # The requests before, back to one that was mostly cached
    row = [*_logged_in_a_row(case), *missed]
    if len(row) == 1:  # of the first prompt of a conversation nothing can be cached
        return None
    return _hardly_cached(case, row, "run.traffic", prompts)


def logged_prompts(case: CaseView) -> Found | Suspected | None:
    """The same of a server that works for others and shows only in its log how much of a prompt it computed."""
    traffic, row = case.run.traffic.get(), _logged_in_a_row(case)
    logged = case.run.logged_prompts
    if traffic is None or not traffic.running or not isinstance(logged, Known) or len(row) < IN_A_ROW:
        return None
    return None if isinstance(traffic.prompts, Known) else _hardly_cached(case, row, "run.logged_prompts", logged)


def _logged_in_a_row(case: CaseView) -> list[SeenPrompt]:
    """The last requests of which the log counts a long prompt as computed."""
    long = [*takewhile(lambda tokens: tokens >= LONG_PROMPT, reversed(case.run.logged_prompts.get() or ()))]
    return [SeenPrompt(slot=0, tokens=tokens, cached_tokens=0) for tokens in reversed(long)]


def _hardly_cached(case: CaseView, row: list[SeenPrompt], fact: str, seen: Known[Any]) -> Found | Suspected:
    """Prompts in a row of which little was cached: turns of a conversation are about as long as the one before."""
    alike = [row[:1]]
    for before, prompt in pairwise(row):
        goes_on = abs(prompt.tokens - before.tokens) <= ALIKE * before.tokens
        alike = [*alike[:-1], [*alike[-1], prompt]] if goes_on else [*alike, [prompt]]
    longest = max(alike, key=len)
    is_talk = len(longest) >= IN_A_ROW
    row = longest if is_talk else row
    tokens = statistics.median(prompt.tokens for prompt in row)
    cached = sum(prompt.cached_tokens for prompt in row) / sum(prompt.tokens for prompt in row)
    share = "almost nothing" if cached < HARDLY else f"only {cached:.0%}"
    words = f"of {len(row)} prompts of about {tokens:.0f} tokens each, {share} was cached"
    if not is_talk:
        return Suspected(words, "whether they are turns of the same conversations", SHOW)
    # Tokens that the prompt before may have had too: what a prompt is longer by is new, and the first may be all new
    repeated = statistics.median(
        max(0, min(before.tokens, prompt.tokens) - prompt.cached_tokens) for before, prompt in pairwise(row)
    )
    rate = case.speed.prompt_speed.get()
    return finding(
        case,
        f"{words}: their starts differ, or there is no room to keep them",
        Evidence(fact=fact, value=words, reference=None, origin=str(seen.origin), source=seen.source),
        fixes=[keep_prompts(case)],
        lost=Cost(seconds=repeated / rate, per="request") if rate else None,
    )


def tried_by_person(case: CaseView) -> Found | None:
    """The same request with the cache was clearly faster."""
    trial = case.narrative.experiment_on(Topic.CACHE, metrics=("prefill", "first_token"))
    if trial is None or not is_clear(trial) or slow_side_has(trial, Topic.CACHE):
        return None
    return finding(case, f"with the cache it is {times_as_fast(trial)}", fixes=[keep_prompts(case)], trial=trial)


def said_by_person(case: CaseView) -> Found | None:
    """The report says that every turn processes the whole prompt."""
    said = case.narrative.remarks_on(Topic.PROMPT_AGAIN)
    if not said or case.narrative.names_phase("load"):
        return None
    words = f"the prompt is processed again instead of cached: {said[0].text}"
    return finding(case, words, case.narrative.cite_remarks(said), fixes=[keep_prompts(case)])


def cache_setting(case: CaseView) -> Found | Suspected | None:
    """Prompt caching is switched off, and prompts are what takes the time, as watched or as told."""
    setting = case.runtime.cache.prompt_cache
    if not isinstance(setting, Known) or setting.value:
        return None
    if case.sharing.prompts_share() >= MOSTLY and setting.origin is not Origin.ESTIMATED:
        # Whether prompts have a beginning in common no counter tells while nothing keeps them
        words = "prompt caching is switched off, and prompts of other requests take most of the time"
        return finding(
            case,
            f"{words}: whatever they have in common is computed again for each",
            "runtime.cache.prompt_cache",
            case.cite("run.traffic.prompt_tokens_per_s"),
            fixes=[keep_prompts(case)],
            explains=("queueing",),
        )
    if not case.narrative.names_phase("prefill", "first_token"):
        return Suspected(OFF, "run.turns", SHOW)
    return finding(case, OFF, "runtime.cache.prompt_cache", fixes=[keep_prompts(case)])


def logged_count(case: CaseView) -> Found | Absent | Suspected:
    """How often the log says that a whole prompt was processed again."""
    times = case.ask_for("runtime.history.prompts_reprocessed", SHOW)
    if not times and case.runtime.cache.prompt_cache.get() is False:
        return Suspected(OFF, "run.turns", SHOW)
    if not times:
        return Absent("the log never says that a whole prompt was processed again")
    found = _prompts_read_again(case, times)
    if times < SEVERAL and not case.narrative.is_report:
        return Suspected(found.because, "whether it happens at every turn", SHOW)
    return found


def _prompts_read_again(case: CaseView, times: int) -> Found:
    fixes = [keep_prompts(case)]
    if case.memory.has_sliding_windows and not case.runtime.cache.swa_full.get():
        whole = Knob.PROMPT_CACHE.to("swa-full", "keep what this model's sliding windows drop")
        fixes.insert(0, Remedy(whole, None, "memory for the cache"))
    prompts = "1 prompt was" if times == 1 else f"{times} prompts were"
    words = f"{prompts} processed again in full: the cache could not be used"
    return finding(case, words, "runtime.history.prompts_reprocessed", fixes=fixes)


def keep_prompts(case: CaseView) -> Remedy:
    """Switch prompt caching on; where it is on, it is up to the requests."""
    if case.runtime.cache.prompt_cache.get() is False:
        kept = "keep what was computed, for prompts that begin alike"
        return Remedy(Knob.PROMPT_CACHE.to(value=True, why=kept), None, "memory for the cache")
    why = "a stable start of the prompt, a slot of its own, a larger cache"
    is_on = case.runtime.cache.prompt_cache.get()
    change = Knob.CLIENT.to(None, why) if is_on else Knob.PROMPT_CACHE.to(value=True, why=why)
    return Remedy(change, None, "memory for the cache")


CAUSE = Cause(
    title="The prompt is processed again at every turn",
    phase="prefill",
    needs=all_of(
        "run.turns or run.traffic or runtime.history.prompts_reprocessed or runtime.cache.prompt_cache or "
        "account.remarks or account.comparisons"
    ),
    routes=(
        Route("measured", held_conversation),
        Route("measured", watched_prompts),
        Route("log", logged_prompts),
        Route("told", tried_by_person),
        Route("told", said_by_person),
        Route("counted", cache_setting),
        Route("log", logged_count),
    ),
    ask=SHOW,
)
