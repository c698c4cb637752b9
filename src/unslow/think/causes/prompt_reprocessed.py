"""The whole prompt is read again at every turn instead of only what is new.

## Why it is slow
A runtime keeps the keys and values of the conversation so far, and a new turn needs only its own tokens. Where that
can't be used (the start of the prompt changes, the cache is off, too small or was given to another conversation, or
the model's kind of memory can't be rewound) everything is computed again, and each turn takes longer than the one
before.

## How to confirm
Send a question, then the same conversation with one more question: `unslow` does that where the server is idle. The
number of prompt tokens that are processed is about the whole conversation, turn by turn (`prompt eval time = ... / N
tokens`), or the log says "forcing full prompt re-processing" (llama.cpp from build 9151 on only with `-lv 4`).

## What it is not
The first turn, which always reads everything; nor a conversation whose start was really changed.

## How to fix
Keep the start of the prompt the same (no clock, no changing tool list before the conversation) and give each client
its own slot. llama.cpp: drop `--no-cache-prompt`, `--cache-ram` larger, `--cache-reuse 256`, for sliding windows
`--swa-full`, more slots (`-np`). vLLM: `--enable-prefix-caching`; SGLang: without `--disable-radix-cache`. LM Studio:
as many slots as conversations (`--parallel`). MLX: a larger `--prompt-cache-size`. Transformers: hand
`past_key_values` on to the next `generate`. Ollama: fewer models and clients that take turns, or
`OLLAMA_NUM_PARALLEL`. Background requests of a user interface (titles, suggestions) take the slot away: switch them
off.

## Safety
Answers do not change. A larger cache takes memory.
"""

import statistics
from itertools import pairwise, takewhile

from unslow.catalog.architectures import architecture
from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.run import SeenPrompt
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Origin
from unslow.think.case.narrative import experiment_on, is_clear, is_report, names_phase, remarks_on, slow_side_has
from unslow.think.case.work import prompt_speed
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import ask_for, cite, cite_remarks, found_by_trial
from unslow.think.report import Cost, Evidence

LEAST_AGAIN = 64
"""Tokens: fewer are computed again by any chat template that closes a turn otherwise than it was generated."""
MOST_KEPT = 0.5  # Of what was there before: a runtime that computes more of it again has not kept the conversation
_OFF = "keeping prompts is switched off"
HARDLY = 0.05  # Of the tokens of prompts: fewer that were kept are the start of a template
SEVERAL = 2  # How often a server that nobody complains of may say it: once is a conversation that began anew
LONG_PROMPT, ALIKE = 256, 0.25
"""Turns of one conversation are about as long as the one before, texts of all kinds are not."""
IN_A_ROW = 3  # Prompts of one length: two may be alike by chance
SHOW = "`unslow` while the server is idle; or {turns}"


def _by_turns(case: Case) -> Found | Absent | None:
    """A conversation that was held just now: what its later turns computed beyond what was new in them."""
    turns = case.run.turns
    later = [turn for turn in (turns.value[1:] if isinstance(turns, Known) else ()) if turn.prompt_tokens]
    if not isinstance(turns, Known) or not later:
        return None
    cache, hits = case.runtime.prompt_cache, case.runtime.prefix_hit_rate.value_or(0.0)
    if turns.origin is Origin.ESTIMATED and cache.value_or(default=False) is True and hits >= HARDLY:
        # What times to the first token suggest, the server's own count of hits overrides
        return Absent(f"prefix caching is on, and {hits:.0%} of the prompt tokens were found in its cache")
    last = later[-1]
    again = max(0, last.computed_tokens - last.new_tokens)
    words = f"{last.computed_tokens} of {last.prompt_tokens} tokens of a conversation were computed at its next turn"
    if again < max(LEAST_AGAIN, MOST_KEPT * (last.prompt_tokens - last.new_tokens)):
        # What the log counts of other conversations: one that is kept does not prove that all are
        logged = case.runtime.prompts_reprocessed.value_or(0) >= SEVERAL
        return _by_log(case) if logged else Absent(f"{words}, and {last.new_tokens} were new")
    evidence = cite(case, "run.turns", words=f"{last.computed_tokens} computed, {last.new_tokens} new")
    found = _found(case, f"{words}, though only {last.new_tokens} were new", (evidence,))
    # How fast prompts are read: by a long one, else by what this turn itself took
    rate = prompt_speed(case).value_or(last.computed_tokens / last.first_token_s if last.first_token_s else 0.0)
    lost = Cost(seconds=again / rate, per="request") if rate else None
    return found._replace(speedup=last.computed_tokens / max(1, last.new_tokens), lost=lost)


def _by_traffic(case: Case) -> Found | Absent | Suspected | None:
    """Long prompts of others, one after the other, of which little was kept."""
    traffic = case.run.traffic
    prompts = traffic.value.prompts if isinstance(traffic, Known) else traffic
    if not isinstance(prompts, Known):
        return None
    long = [prompt for prompt in prompts.value if prompt.tokens >= LONG_PROMPT]
    little_kept = [prompt for prompt in long if prompt.cached_tokens < MOST_KEPT * prompt.tokens]
    if not long:
        return None
    if len(little_kept) <= len(long) / 2:
        return Absent(f"of {len(long)} long prompts that were watched, {len(long) - len(little_kept)} were mostly kept")
    # The last requests before, as the log counts what was computed, back to one of which most was kept
    logged = [*takewhile(lambda tokens: tokens >= LONG_PROMPT, reversed(case.run.logged_prompts.value_or(())))]
    row = [*(SeenPrompt(slot=0, tokens=tokens, cached_tokens=0) for tokens in reversed(logged)), *little_kept]
    if len(row) == 1:  # of the first prompt of a conversation nothing can have been kept
        return None
    tokens = statistics.median(prompt.tokens for prompt in row)
    which = f"{len(row)} prompts, some {tokens:.0f} tokens each," if row[1:] else f"a prompt of {tokens:.0f} tokens"
    share = sum(prompt.cached_tokens for prompt in row) / sum(prompt.tokens for prompt in row)
    words = f"of {which} {'next to nothing' if share < HARDLY else f'only {share:.0%}'} had been kept"
    if len(row) < IN_A_ROW or any(abs(prompt.tokens - tokens) > ALIKE * tokens for prompt in row):
        return Suspected(words, "whether they are turns of the same conversations", SHOW)
    cited = Evidence(fact="run.traffic", value=words, reference=None, origin=str(prompts.origin), source=prompts.source)
    # Tokens of a prompt that the one before may have had as well, and that were computed all the same. What a
    # prompt is longer by is new, and what was kept was not computed. The first one may be new as a whole.
    read_again = statistics.median(
        max(0, min(before.tokens, prompt.tokens) - prompt.cached_tokens) for before, prompt in pairwise(row)
    )
    rate = prompt_speed(case).value_or(0.0)
    lost = Cost(seconds=read_again / rate, per="request") if rate else None
    return _found(case, f"{words}: their starts differ, or there is no room to keep them", (cited,))._replace(lost=lost)


def _by_count(case: Case) -> Found | Absent | Suspected:
    times = ask_for(case, "runtime.prompts_reprocessed", SHOW)
    if not times and case.runtime.prompt_cache.value_or(default=True) is False:
        return Suspected(_OFF, "run.turns", SHOW)
    if not times:
        return Absent("the log never says that a whole prompt was read again")
    if times < SEVERAL and not is_report(case):
        return Suspected(_counted(times), "whether it happens at every turn", SHOW)
    return _by_log(case)


def _by_log(case: Case) -> Found:
    times = case.runtime.prompts_reprocessed.value_or(0)
    found = _found(case, _counted(times), (cite(case, "runtime.prompts_reprocessed"),))
    windows = architecture(case.model.architecture.value_or("")).has_windows
    if not windows or case.runtime.swa_full.value_or(default=False):
        return found
    whole = Knob.PROMPT_CACHE.to("swa-full", "keep all of what this model's sliding windows leave out")
    return found._replace(remedies=(Remedy(whole, None, "memory for the cache"), *found.remedies))


def _counted(times: int) -> str:
    return f"{times} times the runtime could not use what it had kept and read a whole prompt again"


def _by_trial(case: Case) -> Found | None:
    tried = experiment_on(case, Topic.CACHE, metrics=("prefill", "first_token"))
    if tried is None or not is_clear(tried) or slow_side_has(tried, Topic.CACHE):
        return None
    return found_by_trial(case, tried, "where the cache is used it", _remedy(case))


def _by_words(case: Case) -> Found | None:
    """Somebody who sees every turn read everything tells the cause itself."""
    said = remarks_on(case, Topic.PROMPT_AGAIN)
    if not said or names_phase(case, "load"):
        return None
    return _found(case, f"the prompt is read again instead of kept: {said[0].text}", cite_remarks(case, said))


def _by_setting(case: Case) -> Found | Suspected | None:
    cache = case.runtime.prompt_cache
    if not isinstance(cache, Known) or cache.value:
        return None
    if not names_phase(case, "prefill", "first_token"):
        return Suspected(_OFF, "run.turns", SHOW)
    return _found(case, _OFF, (cite(case, "runtime.prompt_cache"),))


def _found(case: Case, because: str, evidence: Citations) -> Found:
    return Found(because, evidence, remedies=(_remedy(case),))


def _remedy(case: Case) -> Remedy:
    why = "a stable start of the prompt, a slot of its own, a larger cache"
    is_on = case.runtime.prompt_cache.value_or(default=False)  # then it is up to what is asked
    change = Knob.CLIENT.to(None, why) if is_on else Knob.PROMPT_CACHE.to(value=True, why=why)
    return Remedy(change, None, "memory for the cache")


CAUSE = Cause(
    title="Prompts are read again at every turn",
    phase="prefill",
    needs=(
        (
            "run.turns",
            "run.traffic",
            "runtime.prompts_reprocessed",
            "runtime.prompt_cache",
            "account.remarks",
            "account.comparisons",
        ),
    ),
    check=check_by(_by_turns, _by_traffic, _by_trial, _by_words, _by_setting, _by_count),
    ask=SHOW,
)
