"""Drafting tokens costs more than the accepted ones save.

## Why it is slow
A draft model, or a guess from the text so far, proposes tokens; the large model checks them in one step. Only accepted
ones are a gain. Where most are rejected, the drafting and the wider step are paid for nothing; on a GPU that is
already busy with several requests the check is not free either.

## How to confirm
The log of llama.cpp shows the acceptance (`draft acceptance = 0.34 ( 313 accepted / 912 generated)`), vLLM counts
`vllm:spec_decode_num_accepted_tokens_total`, and the same request without a draft is as fast or faster. A low
acceptance alone proves nothing: guesses from the text so far cost next to nothing.

## How to fix
Draft fewer tokens (llama.cpp `--spec-draft-n-max 2`, Ollama `draft_num_predict`, vLLM `num_speculative_tokens`), take
a smaller draft of the same family, or switch it off: llama.cpp without `-md` and `--spec-type`, vLLM without
`--speculative-config`, LM Studio "Speculative Decoding" off. Code and repeated text are accepted far more often than
free prose.

## Safety
Answers do not change: every token is checked by the large model.
"""

import re
from typing import NamedTuple

from unslow.facts.account import Comparison, Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.account import gain_of, remarks_on
from unslow.think.adapt.experiments import blames, experiment_on, is_clear
from unslow.think.adapt.work import Cure
from unslow.think.causes._asking import ask_for
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
from unslow.think.causes._command import started_without
from unslow.think.causes._routes import cite_comparison, first_to_decide
from unslow.think.physics.speculative import accepted_tokens
from unslow.think.report import Evidence
from unslow.think.slowness import shortfall

GOOD = 0.6
"""Accepted more often than this, drafting pays almost anywhere."""
USELESS = 0.25
"""Accepted less often than this, a draft costs more than it gives however cheap it is."""
NEAR = 0.02
"""Speeds that are this close in proportion are the same figure, rounded."""
_WITHOUT = re.compile(
    r"(?i)(?:without(?: it| the| a)?(?: draft\w*| speculat\w*| mtp| eagle)?|\bno(?: draft| spec\w*| mtp)"
    r"|\b(?:draft|mtp|spec\w*) off|baseline|plain|disabled|(?:switched|turned) (?:it )?off"
    r"|\boff(?=:))[^.;\d]{0,16}(\d{1,6}(?:\.\d+)?)"
    r"|(\d{1,6}(?:\.\d+)?) ?(?:tok\w*/s\w*|t/s|tps)? (?:without|when off|off\b)"
)
_SWITCHED_ON = re.compile(
    r"(?i)(?:enabl\w+|turn\w* on|switch\w* on|add\w*|with)\b[^.;\d]{0,40}(\d{1,6}(?:\.\d+)?)[^.;\d]{0,8}(?:->|→"
    r"|\bto\b) ?(\d{1,6}(?:\.\d+)?)"
)
"""The speed before and since the draft was switched on."""
_SLOWS = re.compile(
    r"(?i)(?:draft\w*|specul\w*|mtp|eagle\S*)[^.;]{0,40}(?:slower|lowers?|reduces?|hurts?|slows?|halves|worse"
    r"|degrad\w*)"
    r"|slower with (?:\w+ ){0,2}(?:draft|specul|mtp)"
)
_FLAGS = ("-md", "--model-draft", "--spec", "--draft", "-hfd", "--hf-repo-draft", "--lookup", "--mtp")
USUAL_TOKENS = 3
FEWEST_DRAFTED = 20
"""Fewer say little of how often they are accepted."""
TOKEN_COST = 0.15
"""Of a plain step: what drafting and checking one more token takes, with a draft of a tenth of the size."""
CHECK_COST = 0.05
"""The same of checking alone."""
SHOW = (
    "the line `draft acceptance` of llama.cpp's log (of vLLM: `curl -s localhost:8000/metrics | grep spec_decode`), "
    "and the speed of the same request without the draft"
)


class _Accepted(NamedTuple):
    """How much of the draft is accepted, how many tokens are drafted in a step, and what shows it."""

    share: float
    drafted: int
    evidence: Evidence


def check(case: Case) -> Found | Absent | Suspected:
    """Look for a trial with and without the draft, then for an acceptance that can't pay."""
    return first_to_decide(case, _by_trial, _by_command, _by_acceptance)


def _by_command(case: Case) -> Absent | None:
    drafts = isinstance(case.runtime.speculative, Known) or _acceptance(case) is not None
    if drafts or remarks_on(case, Topic.DRAFT) or not started_without(case, *_FLAGS):
        return None
    return Absent("it was started without a draft")


def _by_trial(case: Case) -> Found | Suspected | None:
    """Two speeds that hardly differ prove that it does not pay; which side drafted matters where they do."""
    tried, accepted = experiment_on(case, Topic.DRAFT, metrics=("decode",)), _acceptance(case)
    if tried is None or (accepted and accepted.share >= GOOD):
        return None
    drafting = accepted is not None or isinstance(case.runtime.speculative, Known)
    if is_clear(tried) and not drafting and not _drafting_is_slow(case, tried):
        return Suspected("the speed with and without a draft differs", "the acceptance of the draft", SHOW)
    share = f"; {accepted.share:.0%} of the draft is accepted" if accepted else ""
    known = (accepted.evidence,) if accepted else ()
    speeds = (
        "slower than without it" if tried.worded else f"{tried.slow:g} tokens per second, without it {tried.fast:g}"
    )
    gain = gain_of(tried) if is_clear(tried) else None
    return _found(f"with the draft {speeds}{share}", (cite_comparison(case, tried), *known), gain)


def _drafting_is_slow(case: Case, tried: Comparison) -> bool:
    """Whether the slow side is the one that drafts: in so many words, or by the speed beside `without`."""
    plain = _WITHOUT.search(tried.text)
    if plain:
        return abs(float(plain[1] or plain[2]) - tried.fast) < NEAR * tried.fast
    switched = _SWITCHED_ON.search(tried.text)
    if switched and float(switched[1]) > float(switched[2]):
        return True
    return bool(_SLOWS.search(tried.text)) or bool(remarks_on(case, Topic.NO_GAIN))


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
    gain = accepted_tokens(accepted.drafted, accepted.share) / (1 + _token_cost(case) * accepted.drafted)
    words = f"only {accepted.share:.0%} of the drafted tokens are accepted"
    lost = shortfall(case)
    useless = accepted.share <= USELESS and remarks_on(case, Topic.DRAFT)
    if gain < 1 and ((lost is not None and lost > 1) or remarks_on(case, Topic.NO_GAIN) or useless):
        found = _found(words, (accepted.evidence,), 1 / gain)
        # where physics knows what plain decoding gives, that is the price
        return found._replace(cure=Cure(), speedup=None) if lost is not None and lost > 1 else found
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
        reference = f"{GOOD:.0%} pays"
        evidence = Evidence(
            fact="run.completions", value=words, reference=reference, origin=str(runs.origin), source=runs.source
        )
        steps = max(1, generated - accepted)  # each adds one token of the large model
        return _Accepted(accepted / drafted, max(1, round(drafted / steps)), evidence)
    if not isinstance(counted, Known):
        return None
    tokens = case.runtime.draft_tokens.value_or(USUAL_TOKENS) or USUAL_TOKENS
    return _Accepted(counted.value, tokens, cite(case, "runtime.draft_acceptance", f"{GOOD:.0%} pays"))


def _token_cost(case: Case) -> float:
    """Of a plain step, what one more drafted token takes: a guess from the text so far is only checked."""
    return CHECK_COST if "ngram" in case.runtime.speculative.value_or("").lower() else TOKEN_COST


def _found(because: str, evidence: tuple[Evidence, ...], speedup: float | None) -> Found:
    change = Knob.SPECULATIVE.to(None, "no draft, fewer drafted tokens, or a smaller draft of the same family")
    return Found(because, evidence, remedies=(Remedy(change),), speedup=speedup)


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
    check=check,
    ask=SHOW,
)
