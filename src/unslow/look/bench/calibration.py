"""Calibration: many made-up models measured in turns, a moment each, over and over.

A machine's speed drifts by a tenth and more within a minute: clocks, neighbours on the same host. Models measured one
after the other would each meet another machine; in turns, all meet the same ones, and what they cost beside each
other stays true. The moments are short, as a machine can be slow for a tenth of a second and fast for the next.
Rounds in which other programs were busy are left out where there are enough others. All engines run at once and only
one works.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from unslow.facts.errors import UserError
from unslow.facts.values import MIB
from unslow.look.engine import Engine, start_engine
from unslow.look.kernel.processors import CpuUse, cpus_between, read_cpu_sample, read_own_pid
from unslow.look.openai_api import Timings
from unslow.look.system import LookError, System, try_look

COLD_TOKENS = 1  # The first token finds caches that other models have filled, and threads that sleep
_DATA = "data: "

Progress = Callable[[str, float], None]

MOMENT_S = 0.06
FEWEST_TOKENS, MOST_TOKENS = COLD_TOKENS + 4, 64
QUIET_SHARE = 0.1  # Of the processors in use, what other programs may take in a round that counts
OVERTIME = 2.0  # After this many times the time, not even the fewest rounds are waited for
PROMPT_EVERY = 5  # Prompts take longer than a moment, and there are fewer ways to disturb them
CONTEXT = 2048

DEEP_TOKENS = 512
PROMPT_TOKENS = 192
LARGE_CACHE_BYTES = 50 * MIB  # Half of this and more would hold a good part of `calibrate_types`

TYPES = ("Q4_0", "Q4_1", "Q4_K_M", "Q5_0", "Q5_1", "Q5_K_S", "Q6_K", "Q8_0", "F16")
"""Mixes whose main types are the common ones; llama.cpp has kernels of their own for each."""


class Sample(NamedTuple):
    """The time of each token after the first, and that of the prompt."""

    steps_s: tuple[float, ...]
    prompt_tokens: int
    prefill_s: float


class Limits(NamedTuple):
    """How long all of it may take, how many quiet rounds are enough, and how many rounds there are at least."""

    seconds: float = 30.0
    enough_rounds: int = 40
    fewest_rounds: int = 3
    one_sample_s: float = 4.0


class ModelToMeasure(NamedTuple):
    """A model to measure: what a `Trial` says, with its file."""

    name: str
    path: str
    depth_tokens: int = 1
    prompt_tokens: int = 0


class _Turn(NamedTuple):
    """What a model showed in one round: its sample, and the seconds of a prompt; None where it was broken off."""

    round: int
    sample: Sample | None
    prefill_s: float | None = None


@dataclass
class _Running:
    model: ModelToMeasure
    engine: Engine
    tokens: int = FEWEST_TOKENS
    turns: list[_Turn] = field(default_factory=list)


class ModelTimes(NamedTuple):
    """One model: seconds for each of its tokens, and for each time that its prompt was read."""

    model: ModelToMeasure
    steps_s: tuple[float, ...]
    prefill_s: tuple[float, ...]
    samples: int
    lost: int  # Samples that were broken off
    tokens: int  # Generated in each sample

    @property
    def best_decode_s(self) -> float:
        """The lowest tenth: whatever disturbs a token makes it longer, and hardly anything makes it shorter."""
        if len(self.steps_s) == 1:
            return self.steps_s[0]
        return statistics.quantiles(self.steps_s, n=10, method="inclusive")[0]

    @property
    def typical_decode_s(self) -> float:
        return statistics.median(self.steps_s)

    @property
    def best_prefill_s(self) -> float:
        """The shortest, of few; 0 where no prompt was timed."""
        return min(self.prefill_s, default=0.0)

    @property
    def depth_tokens(self) -> int:
        """The tokens before the one in the middle of a sample."""
        return self.model.depth_tokens + self.tokens // 2


class Rounds(NamedTuple):
    """What was measured, and who else used the processors meanwhile; None where that can't be seen."""

    measured: list[ModelTimes]
    use: CpuUse | None
    missing: tuple[str, ...] = ()  # The models of which every sample took too long
    quiet: bool = True  # Whether only rounds count in which others left the processors alone


class Trial(NamedTuple):
    """A made-up model, and what is asked of it."""

    name: str
    shape: str
    quant: str
    depth_tokens: int = 1  # Tokens before those that are timed
    prompt_tokens: int = 0  # The prompt whose reading is timed; 0 for none


_COSTS = (
    Trial("one step", "tiny", "Q8_0"),
    Trial("launches", "calibrate_launches", "Q8_0", prompt_tokens=PROMPT_TOKENS),
    *(Trial(f"short rows in {quant}", "calibrate_narrow", quant) for quant in ("Q8_0", "Q4_0", "Q5_0", "Q6_K")),
    *(Trial(f"long rows in {quant}", "calibrate_wide", quant) for quant in ("Q8_0", "Q4_1", "Q4_K_M")),
    Trial("vocabulary", "calibrate_words", "Q8_0"),
    Trial("experts", "calibrate_experts", "Q8_0", prompt_tokens=PROMPT_TOKENS),
    Trial("attention, shared heads", "calibrate_shared_heads", "Q8_0", DEEP_TOKENS, DEEP_TOKENS),
    Trial("attention, own heads", "calibrate_own_heads", "Q8_0", DEEP_TOKENS, DEEP_TOKENS),
)


def trials_for(cache_bytes: int) -> tuple[Trial, ...]:
    """The trials for a processor with so much cache: weights that lie in it would be read too fast."""
    shape = "calibrate_types_large" if cache_bytes > LARGE_CACHE_BYTES else "calibrate_types"
    return (*_COSTS, *(Trial(f"weights in {q}", shape, q, prompt_tokens=PROMPT_TOKENS) for q in TYPES))


def measure_in_rounds(
    system: System, models: Iterable[ModelToMeasure], threads: int, limits: Limits, progress: Progress
) -> Rounds:
    """Start an engine for each model, measure them in turns, stop them; UserError where one can't be measured."""
    with ExitStack() as stack:
        running: list[_Running] = []
        for model in (models := list(models)):
            progress("starting engines", len(running) / len(models))
            engine = start_engine(system, model.path, threads=threads, context=CONTEXT)
            running.append(_Running(model, stack.enter_context(engine)))
        for one in running:
            # As many tokens as a moment holds
            warm = _sample(system, one, FEWEST_TOKENS, limits)
            fit = int(MOMENT_S / statistics.median(warm.steps_s)) if warm and warm.steps_s else FEWEST_TOKENS
            one.tokens = max(FEWEST_TOKENS, min(MOST_TOKENS, fit))
        others = OtherPrograms(system, [one.engine.pid for one in running])
        is_quiet = lambda: others.cpus_since_last() <= QUIET_SHARE * threads  # noqa: E731
        quiet = _take_turns(system, running, limits, progress, is_quiet)
        counted = quiet if len(quiet) >= limits.fewest_rounds else None
        measured = [_model_times(one, counted) for one in running]
        missing = tuple(one.model.name for one in measured if not one.steps_s)
        return Rounds([one for one in measured if one.steps_s], others.use(), missing, quiet=counted is not None)


class OtherPrograms:
    """Watches from now on; where the kernel does not report it, nothing is seen."""

    def __init__(self, system: System, engine_pids: Sequence[int]) -> None:
        self._system = system
        own = try_look(None, read_own_pid, system)
        self._own = [*engine_pids, *([] if own is None else [own])]
        self._first = self._last = try_look(None, read_cpu_sample, system)

    def cpus_since_last(self) -> float:
        """Processors that others used since this was last asked."""
        before, self._last = self._last, try_look(None, read_cpu_sample, self._system)
        return cpus_between(before, self._last, self._own).busy_cpus if before and self._last else 0.0

    def use(self) -> CpuUse | None:
        """Who used how much since the start; None where that can't be seen."""
        return cpus_between(self._first, self._last, self._own) if self._first and self._last else None


def _take_turns(
    system: System, running: Sequence[_Running], limits: Limits, progress: Progress, was_quiet: Callable[[], bool]
) -> set[int]:
    """Measure in turns until the time is up; the rounds in which others left the processors alone."""
    start, number, quiet = system.clock(), 0, set[int]()
    while number < limits.fewest_rounds or (
        system.clock() - start < limits.seconds and len(quiet) < limits.enough_rounds
    ):
        for one in running:
            share = (system.clock() - start) / limits.seconds
            if share > OVERTIME:
                return quiet
            progress(f"measuring {len(running)} models in turns", min(share, 1.0))
            deep, prompt = one.model.depth_tokens > 1, number % PROMPT_EVERY == 0
            if deep and not prompt:  # the prompt must be read again each time
                continue
            done = _sample(system, one, one.tokens, limits)
            read = done if deep else None
            if prompt and one.model.prompt_tokens and not deep:
                read = _sample(system, one, 1, limits, one.model.prompt_tokens)
            one.turns.append(_Turn(number, done, read.prefill_s if read else None))
        if was_quiet():
            quiet.add(number)
        number += 1
    return quiet


def _sample(system: System, one: _Running, tokens: int, limits: Limits, prompt: int = 0) -> Sample | None:
    """One completion; None where it took so long that something else must have held the processors."""
    started = system.clock()
    body = {
        "prompt": "a" * (prompt or one.model.depth_tokens),  # a byte is a token of every made-up model
        "n_predict": tokens,
        "stream": True,
        "timings_per_token": True,
        "ignore_eos": True,
        "cache_prompt": False,
    }
    try:
        lines = system.stream(f"{one.engine.url}/completion", body, timeout_s=limits.one_sample_s)
        return parse_sample(line.text for line in lines)
    except LookError as error:
        if one.engine.has_ended or system.clock() - started < limits.one_sample_s:
            raise UserError(f"{one.model.name} could not be measured: {error.why}", "try again") from error
        return None


def parse_sample(lines: Iterable[str]) -> Sample:
    """The sample in a streamed answer."""
    seen = [_timings(line.removeprefix(_DATA)) for line in lines if line.startswith(_DATA)]
    timings = [timing for timing in seen if timing]
    if not timings:
        raise LookError("the answer has no timings")
    steps = []
    for before, after in pairwise(timings):
        tokens = after.predicted_n - before.predicted_n  # some events tell of several tokens
        if before.predicted_n >= COLD_TOKENS and tokens > 0 and after.predicted_ms > before.predicted_ms:
            steps.append((after.predicted_ms - before.predicted_ms) / 1e3 / tokens)
    return Sample(tuple(steps), timings[-1].prompt_n, timings[-1].prompt_ms / 1e3)


def _timings(text: str) -> Timings | None:
    """What llama-server knows so far; it counts the first token as part of the prompt."""
    try:
        event: Any = msgspec.json.decode(text)
        if isinstance(event, dict) and "error" in event:
            raise LookError(f"the server answered with an error: {str(event['error'])[:200]}")
        return msgspec.convert(event["timings"], Timings) if isinstance(event, dict) and "timings" in event else None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise LookError(f"the server streamed something that can't be read: {text[:60]!r}") from error


def _model_times(one: _Running, rounds: set[int] | None) -> ModelTimes:
    turns = [turn for turn in one.turns if rounds is None or turn.round in rounds]
    if not any(turn.sample for turn in turns):
        turns = one.turns
    samples = [turn.sample for turn in turns if turn.sample]
    steps = tuple(step for sample in samples for step in sample.steps_s)
    timed = [tuple(turn.prefill_s for turn in some if turn.prefill_s) for some in (turns, one.turns)]
    prefill = timed[0] or timed[1]
    return ModelTimes(one.model, steps, prefill, len(samples), sum(not turn.sample for turn in turns), one.tokens)
