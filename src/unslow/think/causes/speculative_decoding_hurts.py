"""Drafting tokens costs more than the accepted ones save.

## Why it is slow
A draft model, or a guess from the text so far, proposes tokens; the large model checks them in one step. Only accepted
ones are a gain. Where most are rejected, the drafting and the wider step are paid for nothing; on a GPU that is
already busy with several requests the check is not free either.

## How to confirm
The log of llama.cpp shows the acceptance (`draft acceptance = 0.34 ( 313 accepted / 912 generated)`), vLLM counts
`vllm:spec_decode_num_accepted_tokens_total`, and the same request without a draft is as fast or faster.

## What it is not
A low acceptance alone, which proves nothing: guesses from the text so far cost next to nothing.

## How to fix
Draft fewer tokens (llama.cpp `--spec-draft-n-max 2`, in older builds `--draft-max 2`; Ollama `draft_num_predict`, vLLM
`num_speculative_tokens`), take a smaller draft of the same family, or switch it off: llama.cpp without `-md` and
`--spec-type`, vLLM without `--speculative-config`, SGLang without `--speculative-algorithm`, LM Studio "Speculative
Decoding" off, Transformers without `assistant_model`. Code and repeated text are accepted far more often than free
prose.

## Safety
Answers do not change: every token is checked by the large model.
"""

from typing import NamedTuple

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.narrative import blames, experiment_on, gain_of, is_clear, remarks_on, slow_side_has
from unslow.think.case.slowness import shortfall
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, check_by
from unslow.think.causes._evidence import started_without
from unslow.think.causes._facts import ask_for, cite, cite_comparison
from unslow.think.physics.speculative import accepted_tokens
from unslow.think.report import Evidence

GOOD = 0.6  # Accepted more often than this, drafting pays almost anywhere
USELESS = 0.25  # Accepted less often than this, a draft costs more than it gives however cheap it is
_FLAGS = ("-md", "--model-draft", "--spec", "--draft", "-hfd", "--hf-repo-draft", "--lookup", "--mtp")
USUAL_TOKENS = 3  # Drafted at once: the default of llama.cpp
FEWEST_DRAFTED = 20  # Fewer say little of how often they are accepted
TOKEN_COST = 0.15
"""Of a plain step: what drafting and checking one more token takes, with a draft of a tenth of the size."""
CHECK_COST = 0.05  # The same of checking alone
_LESS = Remedy(Knob.SPECULATIVE.to(None, "no draft, fewer drafted tokens, or a smaller draft of the same family"))
SHOW = "{acceptance}, and the speed of the same request without the draft"


class _Accepted(NamedTuple):
    """How much of the draft is accepted, how many tokens are drafted in a step, and what shows it."""

    share: float
    drafted: int
    evidence: Evidence


def _by_command(case: Case) -> Absent | None:
    drafts = isinstance(case.runtime.speculative, Known) or _acceptance(case) is not None
    if drafts or remarks_on(case, Topic.DRAFT) or not started_without(case, *_FLAGS, by_ollama=True):
        return None
    return Absent("it was started without a draft")


def _by_trial(case: Case) -> Found | Suspected | None:
    """Two speeds that hardly differ prove that it does not pay; which side drafted matters where they do."""
    tried, accepted = experiment_on(case, Topic.DRAFT, metrics=("decode",)), _acceptance(case)
    if tried is None or (accepted and accepted.share >= GOOD):
        return None
    slow_with = slow_side_has(tried, Topic.DRAFT)
    if is_clear(tried) and slow_with is False:
        return None
    if is_clear(tried) and slow_with is None and not remarks_on(case, Topic.NO_GAIN):
        return Suspected("the speed with and without a draft differs", "the acceptance of the draft", SHOW)
    drafting, plain = (tried.fast, tried.slow) if slow_with is False else (tried.slow, tried.fast)
    share = f"; {accepted.share:.0%} of the draft is accepted" if accepted else ""
    known = (accepted.evidence,) if accepted else ()
    speeds = "slower than without it" if tried.worded else f"{drafting:g} tokens per second, without it {plain:g}"
    gain = gain_of(tried) if is_clear(tried) else None
    because, evidence = f"with the draft {speeds}{share}", (cite_comparison(case, tried), *known)
    return Found(because, evidence, remedies=(_LESS,), speedup=gain)


def _by_acceptance(case: Case) -> Found | Absent | Suspected:
    drafts, accepted = case.runtime.speculative, _acceptance(case)
    if accepted is None:
        if isinstance(drafts, Known) and (shortfall(case) or 0.0) > 1:
            words = f"it drafts ({drafts.value}) and is slower than it should be"
            return Suspected(words, "runtime.draft_acceptance", SHOW)
        ask_for(case, "runtime.draft_acceptance", SHOW)
        return Absent("nothing is drafted")
    if accepted.share >= GOOD:
        return Absent(f"{accepted.share:.0%} of the drafted tokens are accepted")
    # Of a plain step, what one more drafted token takes: a guess from the text so far is only checked
    each = CHECK_COST if "ngram" in case.runtime.speculative.value_or("").lower() else TOKEN_COST
    gain = accepted_tokens(accepted.drafted, accepted.share) / (1 + each * accepted.drafted)
    words = f"only {accepted.share:.0%} of the drafted tokens are accepted"
    lost = shortfall(case)
    useless = accepted.share <= USELESS and remarks_on(case, Topic.DRAFT)
    if gain < 1 and ((lost is not None and lost > 1) or remarks_on(case, Topic.NO_GAIN) or useless):
        # where physics knows what plain decoding gives, that is the price
        priced = lost is not None and lost > 1
        cure, speedup = (Cure(), None) if priced else (None, 1 / gain)
        return Found(words, (accepted.evidence,), cure, (_LESS,), speedup=speedup)
    if lost is not None and lost <= 1 and not blames(case, "decode"):
        return Absent(f"{words}, and the speed does not suffer")
    return Suspected(words, "the speed without the draft", SHOW)


def _acceptance(case: Case) -> _Accepted | None:
    """What the answers that were measured show, else what the server counts of all of them."""
    runs, counted = case.run.completions, case.runtime.draft_acceptance
    drafted, accepted, generated = (
        sum(getattr(run, name) for run in runs.value_or(()))
        for name in ("drafted_tokens", "accepted_tokens", "generated_tokens")
    )
    if isinstance(runs, Known) and drafted >= FEWEST_DRAFTED and accepted <= drafted:
        words = f"{accepted} of {drafted} drafted tokens accepted"
        evidence = cite(case, "run.completions", f"{GOOD:.0%} pays", words)
        steps = max(1, generated - accepted)  # each adds one token of the large model
        return _Accepted(accepted / drafted, max(1, round(drafted / steps)), evidence)
    if not isinstance(counted, Known):
        return None
    tokens = case.runtime.draft_tokens.value_or(USUAL_TOKENS) or USUAL_TOKENS
    return _Accepted(counted.value, tokens, cite(case, "runtime.draft_acceptance", f"{GOOD:.0%} pays"))


CAUSE = Cause(
    title="Speculative decoding does not pay",
    phase="decode",
    needs=(
        (
            "runtime.draft_acceptance",
            "runtime.speculative",
            "runtime.command",
            "run.completions",
            "account.comparisons",
            "account.remarks",
        ),
    ),
    check=check_by(_by_trial, _by_command, _by_acceptance),
    ask=SHOW,
)
