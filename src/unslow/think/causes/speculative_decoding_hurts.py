"""Drafting tokens costs more than the accepted ones save.

## Why it is slow
A draft model, or a guess from the text so far, proposes tokens; the large model checks them in one step. Only accepted
ones are a gain. Where most are rejected, the drafting and the wider step are paid for nothing; on a GPU that is already
busy with several requests the check is not free either.

## How to confirm
The log shows the acceptance (`draft acceptance = 0.34 ( 313 accepted / 912 generated)`), and the same request without
a draft is as fast or faster.

## How to fix
Draft fewer tokens, take a smaller draft of the same family, or switch it off. Code and repeated text are accepted far
more often than free prose.

## Safety
Answers do not change: every token is checked by the large model.
"""

import re

from unslow.facts.account import Comparison, Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.account import gain_of, remarks_on
from unslow.think.adapt.experiments import blames, experiment_on, is_clear
from unslow.think.causes._asking import ask_for
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
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
USUAL_TOKENS = 3
TOKEN_COST = 0.15
"""Of a plain step: what drafting and checking one more token takes, with a draft of a tenth of the size."""
SHOW = "the line `draft acceptance` of the log, and the speed of the same request without the draft"


def check(case: Case) -> Found | Absent | Suspected:
    """Look for a trial with and without the draft, then for an acceptance that can't pay."""
    return first_to_decide(case, _by_trial, _by_acceptance)


def _by_trial(case: Case) -> Found | Suspected | None:
    """Two speeds that hardly differ prove that it does not pay; which side drafted matters where they do."""
    tried, accepted = experiment_on(case, Topic.DRAFT, metrics=("decode",)), case.runtime.draft_acceptance
    if tried is None or (isinstance(accepted, Known) and accepted.value >= GOOD):
        return None
    drafting = isinstance(accepted, Known) or isinstance(case.runtime.speculative, Known)
    if is_clear(tried) and not drafting and not _drafting_is_slow(case, tried):
        return Suspected("the speed with and without a draft differs", "the acceptance of the draft", SHOW)
    share = f"; {accepted.value:.0%} of the draft is accepted" if isinstance(accepted, Known) else ""
    known = (cite(case, "runtime.draft_acceptance"),) if isinstance(accepted, Known) else ()
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
    accepted = ask_for(case, "runtime.draft_acceptance", SHOW)
    drafted = case.runtime.draft_tokens.value_or(USUAL_TOKENS) or USUAL_TOKENS
    gain = accepted_tokens(drafted, accepted) / (1 + TOKEN_COST * drafted)
    if accepted >= GOOD:
        return Absent(f"{accepted:.0%} of the drafted tokens are accepted")
    words = f"only {accepted:.0%} of the drafted tokens are accepted"
    lost = shortfall(case)
    useless = accepted <= USELESS and remarks_on(case, Topic.DRAFT)
    if gain < 1 and ((lost is not None and lost > 1) or remarks_on(case, Topic.NO_GAIN) or useless):
        return _found(words, (cite(case, "runtime.draft_acceptance", f"{GOOD:.0%} pays"),), 1 / gain)
    if lost is not None and lost <= 1 and not blames(case, "decode"):
        return Absent(f"{words}, and the speed does not suffer")
    return Suspected(words, "the speed without the draft", SHOW)


def _found(because: str, evidence: tuple[Evidence, ...], speedup: float | None) -> Found:
    change = Knob.SPECULATIVE.to(None, "no draft, fewer drafted tokens, or a smaller draft of the same family")
    return Found(because, evidence, remedies=(Remedy(change),), speedup=speedup)


CAUSE = Cause(
    title="Speculative decoding does not pay",
    phase="decode",
    needs=(("runtime.draft_acceptance", "account.comparisons", "account.remarks"),),
    check=check,
    ask=SHOW,
)
