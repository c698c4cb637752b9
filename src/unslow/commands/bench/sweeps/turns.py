"""One conversation that grows turn by turn: is only what is new computed, or the whole prompt again.

Each turn goes on from the text of the one before, the model's own answer in it, on the same slot, as a chat does.
"""

from typing import NamedTuple

from unslow.commands.bench.bencher import Bencher, BenchWish
from unslow.commands.bench.server import context_of
from unslow.commands.bench.sweeps import Limits, until_stopped
from unslow.facts.bench import FIRST, PREFILL, Failure, Sweep, SweepPoint
from unslow.think.stats.figures import prefill_rate
from unslow.think.stats.repeats import spread_of
from unslow.think.stats.turns import Turn, judge_turns

AXIS = "turns"
OWN_SERVER = False

USUAL_TURNS, FEWEST_TURNS, MOST_TURNS = 5, 3, 64
FIRST_PROMPT, NEXT_PROMPT, ANSWER = 1024, 128, 48
SMALLEST_PROMPT = 64
_UNKNOWN_CONTEXT = 4096
_WARM_UP_TOKENS = 16


class Sizes(NamedTuple):
    """How long the parts of a conversation are, in tokens."""

    first: int
    more: int
    answer: int

    @classmethod
    def within(cls, context: int, turns: int, tokens: int) -> "Sizes":
        """As usual, or smaller where the context is: the last turn must fit with its answer."""
        answer = max(1, min(ANSWER, tokens))
        usual = FIRST_PROMPT + (turns - 1) * NEXT_PROMPT
        scale = min(1.0, max(0.0, 0.9 * context - turns * answer) / usual)
        return cls(int(FIRST_PROMPT * scale), int(NEXT_PROMPT * scale), answer)


def sweep(bencher: Bencher, limits: Limits) -> Sweep:
    """The turns, and what they say of the prompt cache."""
    talk = _Talk(bencher, limits)
    stopped = until_stopped(bencher, talk.hold)
    found = judge_turns(talk.turns)
    return Sweep(
        axis=AXIS, points=tuple(talk.points), verdict=found.verdict, because=found.because, stopped_early=stopped
    )


class _Talk:
    """One conversation."""

    def __init__(self, bencher: Bencher, limits: Limits) -> None:
        self._bencher, self._limits = bencher, limits
        self._count = int(min(MOST_TURNS, max(2, *limits.values, 0))) if limits.values else USUAL_TURNS
        self._sizes = Sizes.within(context_of(bencher) or _UNKNOWN_CONTEXT, self._count, limits.tokens)
        self._planned = 0
        self.turns: list[Turn] = []
        self.points: list[SweepPoint] = []

    def hold(self) -> str:
        """Turn after turn; why it was over before its time, or nothing."""
        if self._sizes.first < SMALLEST_PROMPT:
            return "the context is too small for a conversation"
        start = self._bencher.system.clock()
        self._bencher.progress.step("turns, warming up", 0.0)
        self._bencher.ask(BenchWish(AXIS, min(self._limits.tokens, _WARM_UP_TOKENS), round=0))
        text = ""
        for number in range(1, self._count + 1):
            # The conversation so far, with the answer, and something new
            more = self._sizes.more if text else self._sizes.first
            self._planned += more + (self._sizes.answer if text else 0)
            said = self._bencher.prompts.prompt(more)
            text = f"{text}{self._bencher.last_text}\n\n{said}" if text else said
            share = len(self.points) / self._count
            self._bencher.progress.step(f"turns, turn {number} of {self._count}", share)
            label = f"turn {number}"
            outcome = self._bencher.ask(BenchWish(label, self._sizes.answer, prompt=text, keep=True))
            if isinstance(outcome, Failure):
                self.points.append(SweepPoint(at=number, label=label, failures=1, note=f"failed: {outcome.why}"))
                return f"turn {number} failed: {outcome.why}"
            whole = outcome.prompt_tokens + outcome.cached_tokens or self._planned
            computed = outcome.prompt_tokens or (0 if outcome.cached_tokens else whole)
            new = max(0, whole - (self.turns[-1].whole_tokens if self.turns else 0))
            self.turns.append(Turn(whole, computed, outcome.client_first_token_s, outcome.server_prefill_s))
            figures = {FIRST: spread_of([outcome.client_first_token_s])}
            if rate := prefill_rate(outcome):
                figures[PREFILL] = spread_of([rate])
            seen = {"prompt_tokens": float(whole), "computed_tokens": float(computed), "new_tokens": float(new)}
            self.points.append(SweepPoint(at=number, label=label, figures=figures, seen=seen))
            spent = self._bencher.system.clock() - start
            if number >= FEWEST_TURNS and number < self._count and spent > self._limits.seconds:
                return f"{spent:.0f} s were spent"
        return ""
