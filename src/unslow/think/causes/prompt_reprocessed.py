"""The whole prompt is read again at every turn instead of only what is new.

## Why it is slow
A runtime keeps the keys and values of the conversation so far, and a new turn needs only its own tokens. Where that
can't be used (the start of the prompt changes, the cache is too small or was given to another conversation, or the
model's kind of memory can't be rewound) everything is computed again, and each turn takes longer than the one before.

## How to confirm
The number of prompt tokens that are processed is about the whole conversation, turn by turn (`prompt eval time = ... /
N tokens`), or the log says "forcing full prompt re-processing". The first turn always reads everything.

## How to fix
Keep the start of the prompt the same (no clock, no changing tool list before the conversation), give each client its
own slot, allow a larger cache (`--cache-ram`, `--slot-prompt-similarity`, prefix caching), for models with sliding
windows `--swa-full`. Background requests of a user interface (titles, suggestions) take the slot away: switch them off.

## Safety
Answers do not change. A larger cache takes memory.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.account import gain_of, remarks_on, times_as_fast
from unslow.think.adapt.experiments import experiment_on, is_clear, is_report, names_phase
from unslow.think.causes._asking import ask_for
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
from unslow.think.causes._routes import cite_comparison, cite_remarks, first_to_decide
from unslow.think.report import Evidence

SEVERAL = 2
"""How often a server that nobody complains of may say it: once is a conversation that began anew."""
SHOW = "the log of two turns of one conversation, with `-lv 4`: `grep -E 'prompt eval time|n_past|re-processing' LOG`"


def check(case: Case) -> Found | Absent | Suspected:
    """Look for what the log counts, for a trial, for a cache that is off, and for what somebody saw."""
    return first_to_decide(case, _by_trial, _by_words, _by_setting, _by_count)


def _by_count(case: Case) -> Found | Absent | Suspected:
    times = ask_for(case, "runtime.prompts_reprocessed", SHOW)
    if not times:
        return Absent("the log never says that a whole prompt was read again")
    words = f"{times} times the runtime could not use what it had kept and read a whole prompt again"
    if times < SEVERAL and not is_report(case):
        return Suspected(words, "whether it happens at every turn", SHOW)
    return _found(words, (cite(case, "runtime.prompts_reprocessed"),))


def _by_trial(case: Case) -> Found | None:
    tried = experiment_on(case, Topic.CACHE, metrics=("prefill", "first_token"))
    if tried is None or not is_clear(tried):
        return None
    words = f"where the cache is used it is {times_as_fast(tried)}"
    return _found(words, (cite_comparison(case, tried),), gain_of(tried))


def _by_words(case: Case) -> Found | None:
    """Somebody who sees every turn read everything tells the cause itself."""
    said = remarks_on(case, Topic.PROMPT_AGAIN)
    if not said or names_phase(case, "load"):
        return None
    return _found(f"the prompt is read again instead of kept: {said[0].text}", cite_remarks(case, said))


def _by_setting(case: Case) -> Found | None:
    cache = case.runtime.prompt_cache
    if not isinstance(cache, Known) or cache.value or not names_phase(case, "prefill", "first_token"):
        return None
    return _found("keeping prompts is switched off", (cite(case, "runtime.prompt_cache"),))


def _found(because: str, evidence: tuple[Evidence, ...], speedup: float | None = None) -> Found:
    change = Knob.PROMPT_CACHE.to(value=True, why="a stable start of the prompt, a slot of its own, a larger cache")
    return Found(because, evidence, remedies=(Remedy(change, None, "memory for the cache"),), speedup=speedup)


CAUSE = Cause(
    title="Prompts are read again at every turn",
    phase="prefill",
    needs=(("runtime.prompts_reprocessed", "runtime.prompt_cache", "account.remarks", "account.comparisons"),),
    check=check,
    ask=SHOW,
)
