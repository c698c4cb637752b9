"""Deeper and deeper into the context: what does a longer conversation cost, and does it fall off a cliff.

The same text is asked for at growing lengths, then at shrinking ones, and so on. A runtime that keeps prompts
computes only what is new on the way up and nothing on the way down, so a round down costs little. What changed with
time rather than depth shows, because each depth is read on the way up and on the way down, the shallowest first and
last.
"""

import statistics
from bisect import insort
from collections.abc import Iterable

from unslow.commands.bench.bencher import Bencher, BenchWish
from unslow.commands.bench.protocol import about
from unslow.commands.bench.server import context_of
from unslow.commands.bench.sweeps import Limits, until_stopped
from unslow.facts.bench import DECODE, PREFILL, Failure, Pass, Sweep, SweepPoint
from unslow.think.stats.conditions import memory_taken, spill_signs, worth_keeping
from unslow.think.stats.depth import (
    ROOM_TOKENS,
    UNKNOWN_CONTEXT,
    WORTH_A_DEPTH,
    Curve,
    Reading,
    expectation_of,
    expected_rates,
    judge_depths,
    usual_depths,
)
from unslow.think.stats.figures import decode_rate, prefill_rate
from unslow.think.stats.repeats import spread_of

AXIS = "depth"
OWN_SERVER = False
FEWEST_TOKENS = 32
UNCLEAR = ("cannot_tell", "drift")
MUCH_WAITING = 0.05  # Of the time: a server that has the machine for itself waits for less
_WARM_UP_TOKENS, _WARM_UP_PROMPT = 16, 256
_FEWEST_ROUNDS = 2
_MOST_IN_A_ROW = 2
_MOST_BETWEEN = 2
_PARTS = 3.0  # Of the time, one is for generating: reading deep prompts takes the rest


def sweep(bencher: Bencher, limits: Limits) -> Sweep:
    """The curve over the depth, and what it means."""
    walk = _Walk(bencher, limits)
    stopped = until_stopped(bencher, walk.measure)
    curve = walk.depths.curve()
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
        context = context_of(bencher) or None
        # The deepest prompt that leaves room for an answer; what the user wants, where 0 stands for the shortest prompt
        room = max(0, (context or UNKNOWN_CONTEXT) - limits.tokens - ROOM_TOKENS)
        wanted = sorted({max(1, round(value)) for value in limits.values}) or usual_depths(room)
        self.depths = Depths(bencher, [depth for depth in wanted if depth <= room or not context])
        too_deep = [str(depth) for depth in wanted if depth not in self.depths.wanted]
        self.not_reached = f"the context is too short for {', '.join(too_deep)}" if too_deep else ""
        self._text, self._tokens = "", limits.tokens
        self._start_s = bencher.system.clock()
        self._in_cache, self._keeps = 0, False
        self._failed_in_a_row = self._done = self._halved = 0

    def measure(self) -> str:
        """Round after round until it is clear; why it was over before its time, or nothing."""
        if not self.depths.wanted:
            return f"the context is too short for a prompt and {self._limits.tokens} generated tokens"
        if why := self._warm_up():
            return why
        rounds = max(_FEWEST_ROUNDS, self._limits.repeats)
        for number in range(1, rounds + 1):
            # Up in the first round, down in the second, and so on; why there is no point in another
            why = self._up(number) if number % 2 == 1 else self._down(number)
            curve = self.depths.curve()
            if self._bencher.flush:
                self._bencher.flush()
            if why:
                return why
            if number >= _FEWEST_ROUNDS and curve.clear:
                cliff = curve.beyond if curve.verdict == "cliff" and curve.beyond is not None else None
                deeper = cliff is not None and self.depths.wanted[-1] > 2 * cliff
                return f"the cliff at depth {cliff:.0f} was confirmed; no deeper one was tried" if deeper else ""
            self._look_closer(curve, cliff=False)
        return ""

    def _warm_up(self) -> str:
        """The longest text, and how many tokens there is time for."""
        self._say("warming up")
        prompts, deepest = self._bencher.prompts, self.depths.wanted[-1]
        short = prompts.prompt(min(deepest, _WARM_UP_PROMPT))
        done = self._bencher.ask(BenchWish(AXIS, min(self._limits.tokens, _WARM_UP_TOKENS), prompt=short, round=0))
        if isinstance(done, Failure):
            return f"the server did not respond: {done.why}"
        prompts.learn(len(short.split()), done.prompt_tokens + done.cached_tokens)
        self._text = prompts.prompt(deepest)
        per_answer_s = self._limits.seconds / _PARTS / (_FEWEST_ROUNDS * len(self.depths.wanted))
        fitting = int((decode_rate(done) or 0.0) * per_answer_s)
        self._tokens = min(self._limits.tokens, max(FEWEST_TOKENS, fitting))
        return ""

    def _up(self, number: int) -> str:
        for depth in tuple(self.depths.wanted):
            if self.depths.has_failed(depth):
                break
            if not self._has_time(depth, back=self._keeps):
                self.not_reached = f"depth {depth} would take {about(self._cost_s(depth))}, more than the time left"
                break
            outcome = self._ask(depth, number)
            if isinstance(outcome, Failure):
                return self._given_up(depth, outcome)
            curve = self.depths.curve()
            is_beyond = curve.verdict == "cliff" and curve.beyond is not None and depth >= curve.beyond
            if is_beyond and not self._limits.values:
                break  # what lies beyond takes long and tells no more; the way down shows whether it holds
        return ""

    def _down(self, number: int) -> str:
        """From the deepest that was answered; a cliff is narrowed down on the way, which costs little."""
        depth = max(self.depths.reached_depths(), default=0)
        while depth:
            if self._has_time(depth):
                outcome = self._ask(depth, number)
                if isinstance(outcome, Failure) and (why := self._given_up(depth, outcome)):
                    return why
                self._look_closer(self.depths.curve(), cliff=True)
            depth = max((below for below in self.depths.wanted if below < depth), default=0)
        return ""

    def _given_up(self, depth: int, failure: Failure) -> str:
        """Why no more is asked; nothing where a single depth failed, which the deeper ones would too."""
        hopeless = failure.kind == "gone" or self._failed_in_a_row >= _MOST_IN_A_ROW
        return f"depth {depth} failed: {failure.why}" if hopeless else ""

    def _ask(self, depth: int, number: int) -> Pass | Failure:
        self._say(f"round {number}: {depth} tokens deep")
        words = self._text.split(" ")
        prompt = " ".join(words[: max(1, round(depth / self.depths.wanted[-1] * len(words)))])
        wanted = BenchWish(f"depth {depth}", self._tokens, depth, prompt, number, keep=True)
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
        middle = round((curve.knee + curve.beyond) / 2)
        if curve.beyond > WORTH_A_DEPTH * curve.knee and cliff == (curve.verdict == "cliff"):
            self._halved += 1
            if middle not in self.depths.wanted:
                insort(self.depths.wanted, middle)

    def _has_time(self, depth: int, *, back: bool = False) -> bool:
        """Whether there is time for it, and for the way back; the shallowest is always worth it."""
        if depth == self.depths.wanted[0]:
            return True
        left = self._limits.seconds - (self._bencher.system.clock() - self._start_s)
        return self._cost_s(depth, back=back) <= left

    def _cost_s(self, depth: int, *, back: bool = False) -> float:
        """Of one answer at that depth, and of those on the way back."""
        prompt_token_s, token_s = self.depths.token_seconds()
        answer_s = self._tokens * token_s
        new = max(0, depth - self._in_cache) if self._keeps else depth
        way = sum(known <= depth for known in self.depths.reached_depths()) * answer_s if back else 0.0
        return new * prompt_token_s + answer_s + way

    def _say(self, text: str) -> None:
        """The share is of the time or of the depths, whichever is further."""
        spent = (self._bencher.system.clock() - self._start_s) / max(self._limits.seconds, 1e-9)
        planned = max(_FEWEST_ROUNDS, self._limits.repeats) * max(1, len(self.depths.wanted))
        self._bencher.progress.step(f"depth, {text}", min(0.99, max(spent, self._done / planned)))


class Depths:
    """The depths that are wanted, and every answer and failure of each."""

    def __init__(self, bencher: Bencher, wanted: list[int]) -> None:
        self._bencher = bencher
        self.wanted = wanted
        self._passes: dict[int, list[Pass]] = {}
        self._failures: dict[int, list[Failure]] = {}
        self._seen: dict[int, list[dict[str, float]]] = {}

    def reached_depths(self) -> list[int]:
        """Those up to the deepest that was answered."""
        deepest = max(self._passes, default=0)
        return [depth for depth in self.wanted if depth <= deepest]

    def has_failed(self, depth: int) -> bool:
        """Whether it was never answered, though it was asked for."""
        return depth in self._failures and depth not in self._passes

    def note(self, depth: int, outcome: Pass | Failure) -> None:
        """Keep what came of a request, and what the machine did while it was answered."""
        if isinstance(outcome, Failure):
            self._failures.setdefault(depth, []).append(outcome)
            return
        self._passes.setdefault(depth, []).append(outcome)
        if self._bencher.sampler is not None:
            start = self._bencher.began_s + outcome.started_s
            seen = self._bencher.sampler.means_between(
                start + outcome.client_first_token_s, start + outcome.client_last_token_s
            )
            self._seen.setdefault(depth, []).append(worth_keeping(seen))

    def curve(self) -> Curve:
        """What the readings so far say."""
        deepest = max((self._counted_depth(depth) for depth in self._passes), default=0)
        expected = expectation_of(self._bencher.case, deepest)
        seen = {float(self._counted_depth(depth)): _means(samples) for depth, samples in self._seen.items()}
        readings = [
            Reading(self._counted_depth(depth), 1 / rate, done.started_s)
            for depth, passes in self._passes.items()
            for done in passes
            if (rate := decode_rate(done))
        ]
        curve = judge_depths(readings, expected, seen)
        if curve.verdict not in UNCLEAR:
            return curve
        then = self._events_at(curve.changed_at_s, expected.vram_bytes) if curve.changed_at_s is not None else ""
        return curve._replace(because=curve.because + then + self._cpu_wait_text())

    def points(self) -> tuple[SweepPoint, ...]:
        """All depths that were asked for, with what physics expects there."""
        asked = [depth for depth in self.wanted if depth in self._passes or depth in self._failures]
        expected = expected_rates(self._bencher.case, [self._counted_depth(depth) for depth in asked])
        points = []
        for depth in asked:
            passes, failures, told = (
                self._passes.get(depth, []),
                self._failures.get(depth, []),
                self._counted_depth(depth),
            )
            # Reading counts only where tokens were computed, not where a cache had them
            decode = [rate for done in passes if (rate := decode_rate(done))]
            prefill = [rate for done in passes if (rate := prefill_rate(done))]
            # What a cache had, of the answer in which most was computed
            most = max(passes, key=lambda done: done.prompt_tokens, default=None)
            kept = f"{most.prompt_tokens} prefilled, {most.cached_tokens} cached" if most and most.cached_tokens else ""
            point = SweepPoint(
                at=told,
                label=f"depth {told}",
                figures={name: spread_of(rates) for name, rates in ((DECODE, decode), (PREFILL, prefill)) if rates},
                expected={DECODE: expected[told]} if expected.get(told) else {},
                seen=_means(self._seen.get(depth, [])),
                failures=len(failures),
                note=f"{len(failures)} failed: {failures[0].why}" if failures else kept,
            )
            points.append(point)
        return tuple(points)

    def token_seconds(self) -> tuple[float, float]:
        """Of a token of the last prompt that was long enough to tell, and of one of the slowest answer so far.

        The client's clock does for an estimate.
        """
        done = self._in_order()
        prompts = [rate for one in done if (rate := prefill_rate(one))]
        answers = [rate for one in done if (rate := decode_rate(one))]
        return 1 / prompts[-1] if prompts else 0.0, 1 / min(answers) if answers else 0.0

    def _events_at(self, at_s: float, vram_bytes: float) -> str:
        """What else changed at that moment, over all depths."""
        pairs = [
            (done.started_s < at_s, sample)
            for depth, samples in self._seen.items()
            for done, sample in zip(self._passes[depth], samples, strict=False)
        ]
        before, after = _means(s for early, s in pairs if early), _means(s for early, s in pairs if not early)
        taken = memory_taken(before, after)
        signs = [*([taken] if taken else []), *spill_signs(before, after, vram_bytes)]
        return f". Since then {', '.join(signs)}" if signs else ""

    def _cpu_wait_text(self) -> str:
        """How much of the time the server's threads wanted a processor and had none; empty where it is little."""
        known = [done for done in self._in_order() if done.waited_for_cpu_s is not None]
        waited, took = sum(done.waited_for_cpu_s or 0.0 for done in known), sum(done.client_total_s for done in known)
        if not took or waited < MUCH_WAITING * took:
            return ""
        words = f"waited for a CPU for {waited:.0f} s while {took:.0f} s passed: other processes compete for CPUs"
        return f"; the server's threads {words}"

    def _in_order(self) -> list[Pass]:
        return sorted((done for of in self._passes.values() for done in of), key=lambda done: done.started_s)

    def _counted_depth(self, depth: int) -> int:
        """How deep it was by the server's count of the whole prompt; as asked where it does not tell."""
        told = [done.prompt_tokens + done.cached_tokens for done in self._passes.get(depth, [])]
        return max(told, default=0) or depth


def _means(samples: Iterable[dict[str, float]]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for sample in samples:
        for name, value in sample.items():
            values.setdefault(name, []).append(value)
    return {name: statistics.fmean(of) for name, of in values.items()}
