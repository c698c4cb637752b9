"""The first measurement: a warm-up, then three completions or as many as it takes, the median counts.

Prompts and protocol are those that the guides to slow inference share: a question that asks for a long answer, up to
512 tokens, three times. Every prompt is unique from its first word on, so that no prompt cache can answer it. Server
and client timings are kept apart.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from unslow.facts.run import Completion, Run
from unslow.facts.values import failed, not_found
from unslow.look.bench.company import Company
from unslow.look.bench.guest import Plan, Target
from unslow.look.bench.medians import summarise
from unslow.look.bench.prompts import PROMPTS
from unslow.look.bench.thinking import may_think_unseen, thinking
from unslow.look.bench.timed import decode_rate
from unslow.look.bench.watched import Watched, note, warmed_up, watched
from unslow.look.bench.watching import watching, with_telemetry
from unslow.look.sampler import Sampler
from unslow.look.system import LookError, System
from unslow.look.system.closing import was_closed

OPENINGS = ("Warming", "First", "Second", "Third")
FEWEST_TOKENS, MOST_TOKENS = 24, 512
COMPLETIONS = 3
MOST_SHARED = 5
"""Answers beside somebody else's that are asked for again: whoever is there after so many stays."""
SHARED = not_found(
    "requests of others were answered at the same time, so its speed alone can't be told", "try again when it is idle"
)

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of it that is done."""


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
        return len(runs) >= self.fewest and (len(runs) >= self.most or self._agree([decode_rate(r) for r in runs]))

    def _agree(self, rates: Sequence[float]) -> bool:
        """Whether more than half of them are as near to their median as two that are no further apart than allowed."""
        middle = statistics.median(rates)
        near = sum(abs(rate - middle) <= self.apart / 2 * middle for rate in rates)
        return near > len(rates) / 2


THREE = Repeats()


def measure(system: System, target: Target, plan: Plan, progress: Progress, repeats: Repeats = THREE) -> Run:
    """Measure, and watch meanwhile; what was measured before a server fails is kept, with the reason for the rest."""
    with watching(system, target) as sampler:
        run = _measured(system, target, plan, progress, sampler, repeats)
    return with_telemetry(system, run, sampler)


def _measured(
    system: System, target: Target, plan: Plan, progress: Progress, sampler: Sampler, repeats: Repeats
) -> Run:
    stamp, done = system.now(), list[Watched]()
    warm: Watched | None = None
    company, shared = Company(system, target, plan), 0
    may_think = may_think_unseen(system, target)
    try:
        progress("warming up", 0.0)
        warm = warmed_up(system, target, plan, _prompt(stamp, 0))
        tokens = _tokens_for(warm.timed.completion, plan.seconds_per_completion)
        while shared < MOST_SHARED and not repeats.enough(_completions(done), plan.seconds_per_completion):
            number = len(done) + 1
            progress(f"measuring, {number} of {_up_to(repeats)}: {tokens} tokens", number / (repeats.most + 1))
            company.look()
            seen = watched(system, target, plan, (_prompt(stamp, number + shared), tokens), sampler)
            if company.came():
                shared, tokens = shared + 1, max(FEWEST_TOKENS, tokens // 3)  # a short one fits between two of theirs
            else:
                done.append(seen)
    except LookError as error:
        if warm and was_closed(error) and not shared and not any(seen.whole for seen in done):
            done.append(warm)  # so slow that there was no time for more
        if not done and not shared:
            why = failed(error.why, error.how_to_get)
            return Run(completions=why, decode_tokens_per_s=why)
    if not done:
        return Run(completions=SHARED, decode_tokens_per_s=SHARED)
    progress("measured", 1.0)
    kept = _kept(done, None if shared else warm)
    for seen in kept:
        note(sampler, seen)
    facts = thinking(target, [seen.timed for seen in kept], may_think=may_think)
    return msgspec.structs.replace(summarise(kept, target.url), **facts)


def _kept(done: Sequence[Watched], warm: Watched | None) -> Sequence[Watched]:
    """Those that came whole; a short answer that is whole, be it the warm-up's, tells more than half of one."""
    whole = [seen for seen in done if seen.whole]
    return whole or ([warm] if warm and warm.whole else done)


def _completions(done: Sequence[Watched]) -> list[Completion]:
    return [seen.timed.completion for seen in done]


def _up_to(repeats: Repeats) -> str:
    return f"{repeats.most}" if repeats.fewest == repeats.most else f"up to {repeats.most}"


def _prompt(stamp: str, number: int) -> str:
    return f"{OPENINGS[number % len(OPENINGS)]} request of {stamp}. {PROMPTS[number % len(PROMPTS)]}"


def _tokens_for(warm: Completion, seconds: float) -> int:
    """As many tokens as fit into the time, within the protocol's bounds."""
    rate = warm.generated_tokens / max(warm.decode_s, 1e-6)
    return max(FEWEST_TOKENS, min(MOST_TOKENS, int(rate * seconds)))
