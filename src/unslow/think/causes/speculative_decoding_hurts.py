"""Drafting tokens costs more than the accepted ones save.

## Why it is slow
A draft model, or a guess from the text so far, proposes tokens; the large model checks them in one step. Only accepted
tokens are a gain. Where most are rejected, the drafting and the wider step cost time for nothing; on a GPU that is
already busy with several requests the check is not free either.

## How to confirm
The log of llama.cpp shows the acceptance rate (`draft acceptance = 0.34 ( 313 accepted / 912 generated)`), vLLM counts
`vllm:spec_decode_num_accepted_tokens_total`, and the same request without a draft is as fast or faster.

## What it is not
A low acceptance rate alone, which proves nothing: guesses from the text so far cost next to nothing.

## How to fix
Draft fewer tokens (llama.cpp `--spec-draft-n-max 2`, in older builds `--draft-max 2`; Ollama `draft_num_predict`, vLLM
`num_speculative_tokens`), use a smaller draft model of the same family, or switch it off: llama.cpp without `-md` and
`--spec-type`, vLLM without `--speculative-config`, SGLang without `--speculative-algorithm`, LM Studio "Speculative
Decoding" off, Transformers without `assistant_model`. Code and repeated text are accepted far more often than free
prose.

## Safety
Answers do not change: the large model checks every token.
"""

import statistics
from typing import NamedTuple

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.cure import Cure
from unslow.think.case.narrative import gain_of, is_clear, slow_side_has
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding
from unslow.think.physics.speculative import accepted_tokens
from unslow.think.report import Evidence

GOOD = 0.6  # Acceptance rate: above it, drafting pays almost anywhere
USELESS = 0.25  # Acceptance rate: below it, a draft costs more than it gives, however cheap it is
NONE = 0.005  # Acceptance rate: less is shown as 0 %
USUAL_TOKENS = 3  # Drafted at once: the default of llama.cpp
FEWEST_DRAFTED = 20  # Tokens: fewer say little about the acceptance rate
TOKEN_COST = 0.15
"""Of a plain step: what drafting and checking one more token takes, with a draft model of a tenth of the size."""
CHECK_COST = 0.05  # The same for checking alone
_FLAGS = ("-md", "--model-draft", "--spec", "--draft", "-hfd", "--hf-repo-draft", "--lookup", "--mtp")
DRAFT_LESS = Knob.SPECULATIVE.to(None, "no draft, fewer drafted tokens, or a smaller draft model of the same family")
SHOW = "{acceptance}, and the speed of the same request without the draft"


class Acceptance(NamedTuple):
    """The acceptance rate, how many tokens are drafted in a step, and what shows it."""

    rate: float
    drafted: int
    evidence: Evidence


def tried_by_person(case: CaseView) -> Found | Suspected | None:
    """Speeds with and without the draft: two that hardly differ show that it does not pay."""
    trial, accepted = case.narrative.experiment_on(Topic.DRAFT, metrics=("decode",)), acceptance(case)
    if trial is None or (accepted and accepted.rate >= GOOD):
        return None
    slow_with = slow_side_has(trial, Topic.DRAFT)
    if is_clear(trial) and slow_with is False:
        return None
    if is_clear(trial) and slow_with is None and not case.narrative.remarks_on(Topic.NO_GAIN):
        return Suspected("the speed differs with and without a draft", "the acceptance rate of the draft", SHOW)
    drafting, plain = (trial.fast, trial.slow) if slow_with is False else (trial.slow, trial.fast)
    figures = f"{drafting:g} tok/s with the draft, {plain:g} without"
    speeds = "slower with the draft than without" if trial.worded else figures
    return finding(
        case,
        f"{speeds}; {accepted.rate:.0%} of the drafted tokens are accepted" if accepted else speeds,
        case.narrative.cite_comparison(trial),
        [accepted.evidence] if accepted else (),
        fixes=[DRAFT_LESS],
        speedup=gain_of(trial) if is_clear(trial) else None,
    )


def command_line(case: CaseView) -> Absent | None:
    """A command line without any flag for drafting."""
    drafts = isinstance(case.runtime.sampling.speculative, Known) or acceptance(case) is not None
    if drafts or case.narrative.remarks_on(Topic.DRAFT) or not case.engine.started_without(*_FLAGS, by_ollama=True):
        return None
    return Absent("it was started without a draft")


def acceptance_against_cost(case: CaseView) -> Found | Absent | Suspected | None:
    """What the accepted tokens save against what drafting costs, and whether decode is slower than expected."""
    method, accepted, lost = case.runtime.sampling.speculative.get(), acceptance(case), case.speed.shortfall
    is_slow = lost is not None and lost > 1
    if accepted is None:
        if method is not None and is_slow:
            words = f"it drafts ({method}) and is slower than it should be"
            return Suspected(words, "runtime.sampling.draft_acceptance", SHOW)
        case.ask_for("runtime.sampling.draft_acceptance", SHOW)
        return None
    if accepted.rate >= GOOD:
        return Absent(f"{accepted.rate:.0%} of the drafted tokens are accepted")
    # A guess from the text so far is only checked
    each = CHECK_COST if method is not None and "ngram" in method.lower() else TOKEN_COST
    gain = accepted_tokens(accepted.drafted, accepted.rate) / (1 + each * accepted.drafted)
    share = f"only {accepted.rate:.0%} of the drafted tokens are" if accepted.rate >= NONE else "no drafted token is"
    words = f"{share} accepted"
    is_useless = accepted.rate <= USELESS and case.narrative.remarks_on(Topic.DRAFT)
    if gain < 1 and is_slow:  # physics knows what plain decoding gives: that is the price
        return finding(case, words, accepted.evidence, cure=Cure(), fixes=[Remedy(DRAFT_LESS)])
    if gain < 1 and (case.narrative.remarks_on(Topic.NO_GAIN) or is_useless):
        return finding(case, words, accepted.evidence, fixes=[DRAFT_LESS], speedup=1 / gain)
    if lost is not None and not is_slow and not case.narrative.blames("decode"):
        return Absent(f"{words}, but decode is as fast as expected")
    return Suspected(words, "the speed without the draft", SHOW)


def acceptance(case: CaseView) -> Acceptance | None:
    """Of the measured requests, else as the server counts it for all, else by how many tokens came at once."""
    drafted, accepted, generated = (
        sum(getattr(run, name) for run in case.waits.completions)
        for name in ("drafted_tokens", "accepted_tokens", "generated_tokens")
    )
    if drafted >= FEWEST_DRAFTED and accepted <= drafted:
        words = f"{accepted} of {drafted} drafted tokens accepted"
        steps = max(1, generated - accepted)  # each adds one token of the large model
        evidence = case.cite("run.completions", f"{GOOD:.0%} pays", words)
        return Acceptance(accepted / drafted, max(1, round(drafted / steps)), evidence)
    sampling = case.runtime.sampling
    rate, tokens = sampling.draft_acceptance.get(), sampling.draft_tokens.get() or USUAL_TOKENS
    if rate is not None:
        return Acceptance(rate, tokens, case.cite("runtime.sampling.draft_acceptance", f"{GOOD:.0%} pays"))
    at_once = [run.pieces_at_once for run in case.waits.completions if run.pieces_at_once and run.timed_by_client]
    if not at_once or sampling.speculative.get() is None:
        return None
    # A server that counts nothing shows it all the same: the tokens that one step accepts come together
    each = statistics.median(at_once)
    words = f"{each:.2g} tokens came with each step of up to {tokens + 1}"
    return Acceptance(min(1.0, (each - 1) / tokens), tokens, case.cite("run.completions", f"{GOOD:.0%} pays", words))


CAUSE = Cause(
    title="Speculative decoding does not pay",
    phase="decode",
    needs=all_of(
        "runtime.sampling.draft_acceptance or runtime.sampling.speculative or runtime.process.command or "
        "run.completions or account.comparisons or account.remarks"
    ),
    routes=(Route("told", tried_by_person), Route("counted", command_line), Route("counted", acceptance_against_cost)),
    ask=SHOW,
)
