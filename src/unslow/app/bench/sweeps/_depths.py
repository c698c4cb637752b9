"""What was measured at each depth so far."""

import statistics
from bisect import insort
from collections.abc import Iterable

from unslow.app.bench.bencher import Bencher
from unslow.facts.bench import DECODE, PREFILL, Failure, Pass, Spread, SweepPoint
from unslow.think.bench.depth_curve import Curve, judge_depths
from unslow.think.bench.depth_expectation import expectation_of, expected_rates
from unslow.think.bench.depth_fit import Reading
from unslow.think.bench.rates import decode_rate, prefill_rate
from unslow.think.bench.spill_signs import memory_taken, spill_signs, worth_keeping
from unslow.think.bench.spread import spread_of

UNCLEAR = ("cannot_tell", "drift")
MUCH_WAITING = 0.05
"""Of the time: a server that has the machine for itself waits for less."""


class Depths:
    """The depths that are wanted, and every answer and failure of each."""

    def __init__(self, bencher: Bencher, wanted: list[int]) -> None:
        self._bencher = bencher
        self.wanted = wanted
        self._passes: dict[int, list[Pass]] = {}
        self._failures: dict[int, list[Failure]] = {}
        self._seen: dict[int, list[dict[str, float]]] = {}

    def insert(self, depth: int) -> None:
        """One more depth to look at."""
        if depth not in self.wanted:
            insort(self.wanted, depth)

    def reached(self) -> list[int]:
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
            seen = self._bencher.sampler.seen(start + outcome.client_first_token_s, start + outcome.client_last_token_s)
            self._seen.setdefault(depth, []).append(worth_keeping(seen))

    def judged(self) -> Curve:
        """What the readings so far say."""
        deepest = max((self._told(depth) for depth in self._passes), default=0)
        expected = expectation_of(self._bencher.case, deepest)
        seen = {float(self._told(depth)): _means(samples) for depth, samples in self._seen.items()}
        curve = judge_depths(self._readings(), expected, seen)
        if curve.verdict not in UNCLEAR:
            return curve
        then = self._happened(curve.changed_at_s, expected.vram_bytes) if curve.changed_at_s is not None else ""
        return curve._replace(because=curve.because + then + self._waited())

    def points(self) -> tuple[SweepPoint, ...]:
        """All depths that were asked for, with what physics expects there."""
        asked = [depth for depth in self.wanted if depth in self._passes or depth in self._failures]
        expected = expected_rates(self._bencher.case, [self._told(depth) for depth in asked])
        return tuple(self._point(depth, expected.get(self._told(depth))) for depth in asked)

    def seconds_per_prompt_token(self) -> float:
        """Of the last prompt that was long enough to tell; the client's clock does for an estimate."""
        rates = [rate for done in self._in_order() if (rate := prefill_rate(done))]
        return 1 / rates[-1] if rates else 0.0

    def slowest_s(self) -> float:
        """Of a token, among the answers so far."""
        return max((1 / rate for done in self._in_order() if (rate := decode_rate(done))), default=0.0)

    def _happened(self, at_s: float, vram_bytes: float) -> str:
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

    def _waited(self) -> str:
        """How much of the time the server's threads wanted a processor and had none; empty where it is little."""
        known = [done for done in self._in_order() if done.waited_for_cpu_s is not None]
        waited, took = sum(done.waited_for_cpu_s or 0.0 for done in known), sum(done.client_total_s for done in known)
        if not took or waited < MUCH_WAITING * took:
            return ""
        words = f"waited for a processor for {waited:.0f} s while {took:.0f} s passed: other work is in the way"
        return f"; the server's threads {words}"

    def _in_order(self) -> list[Pass]:
        return sorted((done for of in self._passes.values() for done in of), key=lambda done: done.started_s)

    def _told(self, depth: int) -> int:
        """How deep it was by the server's count of the whole prompt; as asked where it does not tell."""
        told = [done.prompt_tokens + done.cached_tokens for done in self._passes.get(depth, [])]
        return max(told, default=0) or depth

    def _readings(self) -> list[Reading]:
        return [
            Reading(self._told(depth), 1 / rate, done.started_s)
            for depth, passes in self._passes.items()
            for done in passes
            if (rate := decode_rate(done))
        ]

    def _point(self, depth: int, expected: float | None) -> SweepPoint:
        passes, failures = self._passes.get(depth, []), self._failures.get(depth, [])
        return SweepPoint(
            at=self._told(depth),
            label=f"depth {self._told(depth)}",
            figures=_figures(passes),
            expected={DECODE: expected} if expected else {},
            seen=_means(self._seen.get(depth, [])),
            failures=len(failures),
            note=f"{len(failures)} failed: {failures[0].why}" if failures else _kept_note(passes),
        )


def _figures(passes: list[Pass]) -> dict[str, Spread]:
    """Reading counts only where tokens were computed, not where a cache had them."""
    decode = [rate for done in passes if (rate := decode_rate(done))]
    prefill = [rate for done in passes if (rate := prefill_rate(done))]
    return {name: spread_of(rates) for name, rates in ((DECODE, decode), (PREFILL, prefill)) if rates}


def _kept_note(passes: list[Pass]) -> str:
    """What a cache had, of the answer in which most was computed."""
    most = max(passes, key=lambda done: done.prompt_tokens, default=None)
    if most is None or not most.cached_tokens:
        return ""
    return f"{most.prompt_tokens} read now, {most.cached_tokens} kept"


def _means(samples: Iterable[dict[str, float]]) -> dict[str, float]:
    """Each figure over the readings that have it."""
    values: dict[str, list[float]] = {}
    for sample in samples:
        for name, value in sample.items():
            values.setdefault(name, []).append(value)
    return {name: statistics.fmean(of) for name, of in values.items()}
