"""Runs of a server that is started anew for each value: in rounds, so that a slow minute touches every value alike."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from unslow.commands.bench.bencher import Bencher, BenchWish
from unslow.commands.bench.server import Own
from unslow.commands.bench.sweeps import Limits
from unslow.facts.bench import DECODE, LOAD, PREFILL, Pass, SweepPoint
from unslow.facts.errors import UserError
from unslow.facts.runtime import Runtime
from unslow.facts.values import Known
from unslow.think.stats.best_value import Sample
from unslow.think.stats.figures import FEWEST_TOKENS, SHORTEST_CLIENT_PROMPT, SHORTEST_PROMPT, decode_rate, prefill_rate
from unslow.think.stats.repeats import spread_of

OUT_OF_TIME = "out of time"
ROOM_TOKENS = 64
WARM_UP_TOKENS = 16
DECODE_S = 4.0  # About how long an answer shall take
_USUAL_CONTEXT = 4096
_TRIES = 2
_PROMPT_STEP = 64  # Prompts are whole batches of any usual size


class Reading(NamedTuple):
    """What one start gave."""

    value: int
    round: int
    load_s: float
    decode: float | None
    prefill: float | None
    memory_bytes: float | None


class Pace(NamedTuple):
    """What the server is like as it was given, from a first start that counts for nothing."""

    runtime: Runtime
    prefill: float
    context: int
    shortest_prompt: int  # The speed of reading can't be told from a shorter one

    def prompt(self, seconds: float, most: int, tokens: int) -> int:
        """How long a prompt is read in about so much time; within the context, and no shorter than can be timed."""
        room = max(1, self.context - tokens - ROOM_TOKENS)
        whole = -(-int(self.prefill * seconds) // _PROMPT_STEP) * _PROMPT_STEP
        return min(room, max(self.shortest_prompt, min(most, whole)))


class Trials:
    """One sweep: what was tried, what came of it, and how much time is left."""

    def __init__(self, own: Own, axis: str, settings: Callable[[int], dict[str, int]], limits: Limits) -> None:
        self.own, self.axis, self.settings, self.limits = own, axis, settings, limits
        self.readings: list[Reading] = []
        self.broken: dict[int, str] = {}
        """Values that no server would start with, or answer, and why."""
        self.tokens, self.prompt_tokens = limits.tokens, 0
        self._start_s, self._longest_s = own.system.clock(), 0.0

    def pace(self) -> Pace:
        """Start it once as it was given; UserError where it does not answer."""
        self.own.share = 0.0
        with self.own.start({}) as bencher:
            runtime = bencher.subject.runtime
            context = int(runtime.context.per_slot.value_or(runtime.context.length.value_or(_USUAL_CONTEXT)))
            prompt = min(SHORTEST_CLIENT_PROMPT, max(1, context // 2))
            warmed_up(bencher, self.axis)
            done = answer_or_retry(bencher, BenchWish(self.axis, WARM_UP_TOKENS, prompt, round=0))
        decode, prefill = decode_rate(done) or 1.0, prefill_rate(done) or 1.0
        shortest = SHORTEST_CLIENT_PROMPT if done.server_prefill_s is None else SHORTEST_PROMPT
        self.tokens = max(FEWEST_TOKENS + 1, min(self.limits.tokens, int(decode * DECODE_S)))
        return Pace(runtime, prefill, context, shortest)

    def has_time(self) -> bool:
        """Whether another start is likely to end within the limit."""
        return self.own.system.clock() - self._start_s + self._longest_s <= self.limits.seconds

    def measure(self, value: int, number: int, tokens: int | None = None) -> None:
        """One start with this value; a server that does not start or answer so is noted, and the value left out."""
        if value in self.broken:
            return
        start = self.own.system.clock()
        self.own.share = min(0.99, (start - self._start_s) / self.limits.seconds)
        try:
            with self.own.start(self.settings(value)) as bencher:
                self.own.progress.step(f"{self.axis} {value}, round {number}", self.own.share)
                case = f"{self.axis} {value}"
                warmed_up(bencher, case)
                wanted = BenchWish(case, tokens or self.tokens, self.prompt_tokens, round=number)
                done, memory = answer_or_retry(bencher, wanted), memory_of(bencher.subject.runtime)
                speeds = decode_rate(done), prefill_rate(done)
                self.readings.append(Reading(value, number, self.own.load_s, *speeds, memory))
        except UserError as error:
            self.broken[value] = error.message
        self._longest_s = max(self._longest_s, self.own.system.clock() - start)

    def samples(self, figure: str) -> list[Sample]:
        """The speeds of one kind."""
        pairs = ((r, r.decode if figure == DECODE else r.prefill) for r in self.readings)
        return [Sample(reading.value, reading.round, speed) for reading, speed in pairs if speed]

    def speeds(self, figure: str) -> dict[int, float]:
        """The speed by value, of the first round that has it."""
        return {s.value: s.speed for s in reversed(self.samples(figure))}

    def memory(self) -> dict[int, float]:
        """What the server took with each value, as far as it tells."""
        return {r.value: r.memory_bytes for r in self.readings if r.memory_bytes is not None}

    def points(self) -> tuple[SweepPoint, ...]:
        """What came out, by value."""
        points, memory = [], self.memory()
        for value in sorted({r.value for r in self.readings} | set(self.broken)):
            own = [reading for reading in self.readings if reading.value == value]
            columns: dict[str, list[float | None]] = {
                DECODE: [reading.decode for reading in own],
                PREFILL: [reading.prefill for reading in own],
                LOAD: [reading.load_s for reading in own],
            }
            known = {name: [v for v in column if v is not None] for name, column in columns.items()}
            figures = {name: spread_of(column) for name, column in known.items() if column}
            seen = {"server_memory_bytes": memory[value]} if value in memory else {}
            failures, note = int(value in self.broken), self.broken.get(value, "")
            points.append(SweepPoint(at=value, figures=figures, seen=seen, failures=failures, note=note))
        return tuple(points)


def memory_of(runtime: Runtime) -> float | None:
    """What the server says that it allocated, all buffers together; else what lies in memory of its process."""
    if isinstance(runtime.memory.buffers, Known) and runtime.memory.buffers.value:
        return float(sum(buffer.bytes for buffer in runtime.memory.buffers.value))
    resident = runtime.process.resident_bytes.value_or(None)
    return None if resident is None else float(resident)


def warmed_up(bencher: Bencher, case: str) -> None:
    """A first request, which counts for nothing; from its tokens the prompts learn how long words are."""
    prompt = bencher.prompts.prompt(SHORTEST_PROMPT)
    done = answer_or_retry(bencher, BenchWish(case, FEWEST_TOKENS, prompt=prompt, round=0))
    bencher.prompts.learn(len(prompt.split()), done.prompt_tokens + done.cached_tokens)


def answer_or_retry(bencher: Bencher, wanted: BenchWish) -> Pass:
    """The answer, at the second try if need be; UserError where there is none."""
    for _ in range(_TRIES):
        done = bencher.ask(wanted)
        if isinstance(done, Pass):
            return done
    raise UserError(f"the server did not respond: {bencher.failures[-1].why}")


def in_turn(values: Sequence[int], number: int) -> list[int]:
    """The values of a round: there and back again, so that what changes with time weighs on none of them."""
    return list(values) if number % 2 else list(reversed(values))
