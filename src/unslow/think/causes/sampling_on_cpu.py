"""Choosing the next token on the CPU takes as long as computing it on the GPU.

## Why it is slow
After each step the host picks a token from a hundred thousand or more. Sorting them all (`top_k 0` with samplers that
need an order), checking each against a grammar or a JSON schema, or returning the probabilities of many costs
milliseconds for each token, while the GPU waits. A fast GPU does not help: all cards give the same speed.

## How to confirm
The same request without grammar, schema and logprobs, and with `top_k 40`, is clearly faster. One core is busy while
the GPU idles between steps.

## How to fix
Set `top_k` (40 is usual) or put it first among the samplers; use a schema rather than a general JSON grammar, or a
runtime with a compiled grammar engine; ask for fewer logprobs.

## Safety
`top_k 40` changes answers only where tokens of very low probability would have been picked. Without its grammar an
answer may break the format.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.account import gain_of, times_as_fast
from unslow.think.adapt.experiments import blames, experiment_on, is_clear
from unslow.think.causes._asking import ask_for
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
from unslow.think.causes._routes import cite_comparison, first_to_decide
from unslow.think.predict import measured_rate
from unslow.think.slowness import shortfall

SORT_S_PER_ENTRY = 36e-9
"""Sorting a whole vocabulary: 53.5 against 75.5 tok/s with 151,936 entries on one desktop (llama.cpp issue 13171)."""
LEAST_SHARE = 0.1
"""Of a token's time: sorting that takes less is not what makes it slow."""
MOST_SHARE = 0.9
USUAL_TOP_K = 40
SHOW = 'the same request again with `"top_k": 40` and without grammar, JSON schema, `format` and `logprobs`: its speed'


def check(case: Case) -> Found | Absent | Suspected:
    """Look for a trial with and without, for a sort of the whole vocabulary, and for a grammar."""
    return first_to_decide(case, _by_trial, _by_top_k, _by_grammar, _by_speed, _by_settings)


def _by_trial(case: Case) -> Found | Absent | None:
    tried = experiment_on(case, Topic.GRAMMAR, Topic.SAMPLER, Topic.LOGPROBS, Topic.DEPTH, metrics=("decode",))
    if tried is None or tried.differs == (Topic.DEPTH,):
        return None
    if not is_clear(tried):
        return Absent("the speed is the same without it")
    kind = {Topic.GRAMMAR: "a grammar", Topic.LOGPROBS: "logprobs"}.get(tried.differs[0], "these samplers")
    return Found(
        because=f"without {kind} it is {times_as_fast(tried)}: the CPU checks every token",
        evidence=(cite_comparison(case, tried),),
        remedies=(Remedy(Knob.SAMPLER.to(None, "without it, or with a faster grammar engine"), None, "the format"),),
        speedup=gain_of(tried),
    )


def _by_top_k(case: Case) -> Found | Absent | None:
    """`top_k 0` sorts the whole vocabulary; what that costs is known."""
    top_k = case.runtime.top_k
    if not isinstance(top_k, Known) or top_k.value > 0:
        return None
    rate, entries = measured_rate(case), case.model.vocabulary.value_or(0)
    share = min(MOST_SHARE, entries * SORT_S_PER_ENTRY * rate.value) if isinstance(rate, Known) and entries else None
    if share is not None and share < LEAST_SHARE:
        return Absent(f"sorting {entries:,} entries takes {share:.0%} of a token's time")
    if share is None and not blames(case, "decode"):
        ask_for(case, "run.decode_tokens_per_s", SHOW)
        ask_for(case, "model.vocabulary", SHOW)
    of = f" of {entries:,} entries" if entries else ""
    cost = f", about {share:.0%} of the time of a token" if share else ""
    return Found(
        because=f"top_k is 0, so the whole vocabulary{of} is sorted on the CPU for every token{cost}",
        evidence=(cite(case, "runtime.top_k", f"{USUAL_TOP_K} is usual"),),
        remedies=(Remedy(Knob.SAMPLER.to(USUAL_TOP_K, "top_k: only the best are sorted"), None, "answers vary less"),),
        speedup=1 / (1 - share) if share else None,
    )


def _by_grammar(case: Case) -> Found | Suspected | None:
    grammar = case.runtime.grammar
    if not isinstance(grammar, Known) or not grammar.value:
        return None
    lost = shortfall(case)
    if lost is None or lost <= 1:
        return (
            Suspected(f"the answer is bound to {grammar.value}", "the speed without it", SHOW) if lost is None else None
        )
    return Found(
        because=f"the answer is bound to {grammar.value}, and the CPU checks every token against it",
        evidence=(cite(case, "runtime.grammar"),),
        remedies=(Remedy(Knob.SAMPLER.to(None, "without it, or with a faster grammar engine"), None, "the format"),),
        speedup=lost,
    )


def _by_speed(case: Case) -> Absent | None:
    return Absent("it is as fast as this set-up should be") if shortfall(case) == 1 else None


def _by_settings(case: Case) -> Absent:
    grammar = ask_for(case, "runtime.grammar", SHOW)
    top_k = ask_for(case, "runtime.top_k", SHOW)
    return Absent(f"top_k is {top_k}, and {'the grammar costs nothing here' if grammar else 'no grammar is set'}")


CAUSE = Cause(
    title="Sampling on the CPU",
    phase="decode",
    needs=(("runtime.top_k", "runtime.grammar", "account.comparisons"),),
    check=check,
    ask=SHOW,
)
