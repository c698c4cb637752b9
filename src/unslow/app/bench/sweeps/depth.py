"""Deeper and deeper into the context: what does a longer conversation cost, and does it fall off a cliff.

The same text is asked for at growing lengths, then at shrinking ones, and so on. A runtime that keeps prompts computes
only what is new on the way up and nothing on the way down, so a round down costs little. What changed with time rather
than depth shows, because each depth is read on the way up and on the way down, the shallowest first and last.
"""

from unslow.app.bench.bencher import Bencher, Wanted
from unslow.app.bench.remaining import about
from unslow.app.bench.sweeps import Limits
from unslow.app.bench.sweeps._depths import Depths
from unslow.facts.bench import Failure, Pass, Sweep
from unslow.think.bench.depth_curve import Curve
from unslow.think.bench.depth_plan import asked_depths, between, room_for, usual_depths
from unslow.think.bench.rates import decode_rate

AXIS = "depth"
HELP = "deeper and deeper into the context: the honest price of a longer cache, or a cliff"
OWN_SERVER = False

FEWEST_TOKENS = 32
_WARM_UP_TOKENS, _WARM_UP_PROMPT = 16, 256
_FEWEST_ROUNDS = 2
_MOST_IN_A_ROW = 2
_MOST_BETWEEN = 2
_PARTS = 3.0
"""Of the time, one is for generating: reading deep prompts takes the rest."""


def sweep(bencher: Bencher, limits: Limits) -> Sweep:
    """The curve over the depth, and what it means."""
    walk = _Walk(bencher, limits)
    try:
        stopped = walk.measure()
    except KeyboardInterrupt:
        bencher.interrupted = True
        stopped = "stopped by the user"
    curve = walk.depths.judged()
    return Sweep(
        axis=AXIS,
        points=walk.depths.points(),
        verdict=curve.verdict,
        because=curve.because,
        knee=curve.knee if curve.verdict == "cliff" else None,
        stopped_early=stopped or walk.not_reached,
    )


class _Walk:
    """Up and down through the depths, as far and as often as the time allows."""

    def __init__(self, bencher: Bencher, limits: Limits) -> None:
        self._bencher, self._limits = bencher, limits
        self._room = room_for(_context(bencher), limits.tokens)
        wanted = asked_depths(limits.values) or usual_depths(self._room)
        self.depths = Depths(bencher, [depth for depth in wanted if depth <= self._room or not _context(bencher)])
        too_deep = [str(depth) for depth in wanted if depth not in self.depths.wanted]
        self.not_reached = f"no room for {', '.join(too_deep)} in the context" if too_deep else ""
        self._text, self._tokens = "", limits.tokens
        self._start_s = bencher.system.clock()
        self._in_cache, self._keeps = 0, False
        self._failed_in_a_row = self._done = self._halved = 0

    def measure(self) -> str:
        """Round after round until it is clear; why it was over before its time, or nothing."""
        if not self.depths.wanted:
            return f"the context has no room for a prompt and {self._limits.tokens} tokens of answer"
        if why := self._warm_up():
            return why
        rounds = max(_FEWEST_ROUNDS, self._limits.repeats)
        for number in range(1, rounds + 1):
            why = self._round(number)
            curve = self.depths.judged()
            if self._bencher.flush:
                self._bencher.flush()
            if why or (number >= _FEWEST_ROUNDS and curve.clear):
                return why or self._turned(curve)
            self._look_closer(curve, cliff=False)
        return ""

    def _warm_up(self) -> str:
        """The longest text, and how many tokens there is time for."""
        self._say("warming up")
        prompts, deepest = self._bencher.prompts, self.depths.wanted[-1]
        short = prompts.prompt(min(deepest, _WARM_UP_PROMPT))
        done = self._bencher.ask(Wanted(AXIS, min(self._limits.tokens, _WARM_UP_TOKENS), prompt=short, round=0))
        if isinstance(done, Failure):
            return f"the server did not answer: {done.why}"
        prompts.learn(len(short.split()), done.prompt_tokens + done.cached_tokens)
        self._text = prompts.prompt(deepest)
        per_answer_s = self._limits.seconds / _PARTS / (_FEWEST_ROUNDS * len(self.depths.wanted))
        fitting = int((decode_rate(done) or 0.0) * per_answer_s)
        self._tokens = min(self._limits.tokens, max(FEWEST_TOKENS, fitting))
        return ""

    def _round(self, number: int) -> str:
        """Up in the first round, down in the second, and so on; why there is no point in another."""
        return self._up(number) if number % 2 == 1 else self._down(number)

    def _up(self, number: int) -> str:
        for depth in tuple(self.depths.wanted):
            if self.depths.has_failed(depth):
                break
            if not self._has_time(depth, back=self._keeps):
                self.not_reached = f"depth {depth} would take {about(self._cost_s(depth))}, more than there is left"
                break
            outcome = self._ask(depth, number)
            if isinstance(outcome, Failure):
                return self._given_up(depth, outcome)
            curve = self.depths.judged()
            if (
                curve.beyond is not None
                and curve.verdict == "cliff"
                and depth >= curve.beyond
                and not self._limits.values
            ):
                break  # what lies beyond takes long and tells no more; the way down shows whether it holds
        return ""

    def _down(self, number: int) -> str:
        """From the deepest that was answered; a cliff is narrowed down on the way, which costs little."""
        depth = max(self.depths.reached(), default=0)
        while depth:
            if self._has_time(depth):
                outcome = self._ask(depth, number)
                if isinstance(outcome, Failure) and (why := self._given_up(depth, outcome)):
                    return why
                self._look_closer(self.depths.judged(), cliff=True)
            depth = max((below for below in self.depths.wanted if below < depth), default=0)
        return ""

    def _given_up(self, depth: int, failure: Failure) -> str:
        """Why no more is asked; nothing where a single depth failed, which the deeper ones would too."""
        hopeless = failure.kind == "gone" or self._failed_in_a_row >= _MOST_IN_A_ROW
        return f"depth {depth} failed: {failure.why}" if hopeless else ""

    def _ask(self, depth: int, number: int) -> Pass | Failure:
        self._say(f"round {number}: {depth} tokens deep")
        prompt = shortened(self._text, depth / self.depths.wanted[-1])
        wanted = Wanted(f"depth {depth}", self._tokens, depth, prompt, number, keep=True)
        outcome = self._bencher.ask(wanted)
        self.depths.note(depth, outcome)
        self._done += 1
        if isinstance(outcome, Failure):
            self._failed_in_a_row += 1
            self._in_cache = 0
            return outcome
        self._keeps = outcome.cached_tokens > min(self._in_cache, depth) / 2 if self._in_cache else self._keeps
        self._in_cache, self._failed_in_a_row = depth, 0
        return outcome

    def _look_closer(self, curve: Curve, *, cliff: bool) -> None:
        """One more depth between the two where there is a cliff, or may be one."""
        if curve.knee is None or curve.beyond is None or self._limits.values or self._halved >= _MOST_BETWEEN:
            return
        middle = between(curve.knee, curve.beyond)
        if middle is not None and cliff == (curve.verdict == "cliff"):
            self._halved += 1
            self.depths.insert(middle)

    def _turned(self, curve: Curve) -> str:
        """Why deeper ones were left out, where they were."""
        if curve.verdict == "cliff" and curve.beyond is not None and self.depths.wanted[-1] > 2 * curve.beyond:
            return f"the cliff at depth {curve.beyond:.0f} showed again, so no deeper one was tried"
        return ""

    def _has_time(self, depth: int, *, back: bool = False) -> bool:
        """Whether there is time for it, and for the way back; the shallowest is always worth it."""
        if depth == self.depths.wanted[0]:
            return True
        left = self._limits.seconds - (self._bencher.system.clock() - self._start_s)
        way = sum(known <= depth for known in self.depths.reached()) * self._answer_s() if back else 0.0
        return self._cost_s(depth) + way <= left

    def _cost_s(self, depth: int) -> float:
        new = max(0, depth - self._in_cache) if self._keeps else depth
        return new * self.depths.seconds_per_prompt_token() + self._answer_s()

    def _answer_s(self) -> float:
        return self._tokens * self.depths.slowest_s()

    def _say(self, text: str) -> None:
        """The share is of the time or of the depths, whichever is further."""
        spent = (self._bencher.system.clock() - self._start_s) / max(self._limits.seconds, 1e-9)
        planned = max(_FEWEST_ROUNDS, self._limits.repeats) * max(1, len(self.depths.wanted))
        self._bencher.progress.step(f"depth, {text}", min(0.99, max(spent, self._done / planned)))


def shortened(text: str, share: float) -> str:
    """The first words of a text, by their share of its length."""
    if share >= 1:
        return text
    words = text.split(" ")
    return " ".join(words[: max(1, round(share * len(words)))])


def _context(bencher: Bencher) -> int | None:
    runtime = bencher.subject.runtime
    context = runtime.context_per_slot.value_or(runtime.context_length.value_or(None))
    return int(context) if context else None
