"""Judges the turns of one conversation: is only what is new computed, or everything again.

A server that counts what its cache had tells it outright. Of one that does not, the clock does: a turn that takes as
long as its whole prompt would, at the speed of the first turn, computed all of it.
"""

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from unslow.think.stats.best_value import SweepVerdict

CACHED, REPROCESSED = 0.15, 0.85
"""The part of what the server had already that is computed again: blocks and the last token of an answer are some."""
BY_CLOCK = (0.35, 0.65)  # The same where only the clock tells, which holds the way there too
LEAST_CLIENT_S, LEAST_SERVER_S = 0.05, 0.005
"""Reading the known part must take this long, or the clock can't tell whether it happened."""
_EXPLAINED = "`unslow explain prompt_reprocessed` lists the usual reasons"


class Turn(NamedTuple):
    """One turn: its prompt, what of it was computed, and how long that took."""

    whole_tokens: int
    computed_tokens: int
    first_s: float  # Until the first token came, by the client's clock
    prefill_s: float | None = None  # Reading alone, by the server's

    @property
    def reading_s(self) -> float:
        """How long the prompt took."""
        return self.first_s if self.prefill_s is None else self.prefill_s


class _Later(NamedTuple):
    turn: Turn
    known: int  # Tokens of its prompt that the turn before had too

    @property
    def new(self) -> int:
        return self.turn.whole_tokens - self.known

    @property
    def again(self) -> int:
        """Known tokens that were computed all the same."""
        return min(self.known, max(0, self.turn.computed_tokens - self.new))


def judge_turns(turns: Sequence[Turn]) -> SweepVerdict:
    """cached, reprocessed, partly or cannot_tell: of turns in their order, each of which goes on from the last."""
    later = [_Later(turn, before.whole_tokens) for before, turn in pairwise(turns) if turn.whole_tokens > 0]
    later = [one for one in later if 0 < one.known <= one.turn.whole_tokens]
    if not later:
        return SweepVerdict("cannot_tell", "there are no two turns to compare")
    counts = any(one.turn.computed_tokens < one.turn.whole_tokens for one in later)
    # Of the first it is sure that all of it was computed
    timed = max(turns, key=lambda turn: turn.computed_tokens) if counts else turns[0]
    token_s = timed.reading_s / max(1, timed.computed_tokens)
    return _judge_by_count(later, token_s, turns[0]) if counts else _judge_by_clock(later, token_s)


def _judge_by_count(later: Sequence[_Later], token_s: float, first: Turn) -> SweepVerdict:
    shares = [one.again / one.known for one in later]
    if max(shares) <= CACHED:
        wait = statistics.median(one.turn.first_s for one in later)
        computed = statistics.median(one.turn.computed_tokens for one in later)
        whole = statistics.median(one.turn.whole_tokens for one in later)
        why = f"later turns computed {computed:.0f} of about {whole:.0f} tokens: time to first token {wait:.2f} s"
        return SweepVerdict("cached", f"{why}, {first.first_s:.2f} s in the first turn")
    if min(shares) >= REPROCESSED:
        return _judge_reprocessed(later, token_s)
    lost = [one for one in later if one.again > CACHED * one.known]
    worst = max(lost, key=lambda one: one.again)
    why = f"{len(lost)} of {len(later)} later turns reprocessed tokens that the server had: up to {worst.again} of "
    why += f"{worst.known} tokens, {worst.again * token_s:.2f} s; {_EXPLAINED}"
    return SweepVerdict("partly", why)


def _judge_reprocessed(later: Sequence[_Later], token_s: float) -> SweepVerdict:
    again = statistics.median(one.known for one in later)
    new = statistics.median(one.new for one in later)
    why = f"every later turn reprocessed the whole prompt: about {again:.0f} known tokens besides "
    why += f"{new:.0f} new ones, {again * token_s:.2f} s per turn; {_EXPLAINED}"
    return SweepVerdict("reprocessed", why)


def _judge_by_clock(later: Sequence[_Later], token_s: float) -> SweepVerdict:
    """Where no cache is counted: either there is none, or the server does not tell."""
    known_s = statistics.median(one.known for one in later) * token_s
    if known_s < (LEAST_CLIENT_S if later[0].turn.prefill_s is None else LEAST_SERVER_S):
        why = f"no cache hits are reported, and reprocessing the known tokens takes only {known_s * 1000:.0f} ms"
        return SweepVerdict("cannot_tell", f"{why}, too little to measure")
    share = statistics.median((one.turn.reading_s - one.new * token_s) / (one.known * token_s) for one in later)
    if share <= BY_CLOCK[0]:
        wait = statistics.median(one.turn.first_s for one in later)
        why = f"later turns take {wait:.2f} s, too little to have reprocessed their whole prompts"
        return SweepVerdict("cached", why)
    if share >= BY_CLOCK[1]:
        return _judge_reprocessed(later, token_s)
    why = f"the server does not report cache hits; by time, later turns reprocessed {share:.0%} of the known tokens"
    return SweepVerdict("cannot_tell", why)
