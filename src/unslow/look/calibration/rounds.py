"""Many models measured in turns, a moment each, over and over.

A machine's speed drifts by a tenth and more within a minute: clocks, neighbours on the same host. Models measured one
after the other would each meet another machine; in turns, all meet the same ones, and what they cost beside each other
stays true. The moments are short, as a machine can be slow for a tenth of a second and fast for the next. Rounds in
which other programs were busy are left out where there are enough others. All engines run at once and only one works.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from unslow.facts.errors import UserError
from unslow.look.calibration.others import Others
from unslow.look.calibration.sample import COLD_TOKENS, Sample, read_sample
from unslow.look.engine.server import Engine, start_engine
from unslow.look.kernel.cpu_time import CpuUse
from unslow.look.system import LookError, System

Progress = Callable[[str, float], None]

MOMENT_S = 0.06
FEWEST_TOKENS, MOST_TOKENS = COLD_TOKENS + 4, 64
QUIET_SHARE = 0.1
"""Of the processors in use, what other programs may take in a round that counts."""
OVERTIME = 2.0
"""After this many times the time, not even the fewest rounds are waited for."""
PROMPT_EVERY = 5
"""Prompts take longer than a moment, and there are fewer ways to disturb them."""
CONTEXT = 2048


class Limits(NamedTuple):
    """How long all of it may take, how many quiet rounds are enough, and how many rounds there are at least."""

    seconds: float = 30.0
    enough_rounds: int = 40
    fewest_rounds: int = 3
    one_sample_s: float = 4.0


class Guest(NamedTuple):
    """A model to measure; what `look/calibration/trials.py` says of a trial, with its file."""

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
    """An engine and what it has shown so far."""

    guest: Guest
    engine: Engine
    tokens: int = FEWEST_TOKENS
    turns: list[_Turn] = field(default_factory=list)


class Measured(NamedTuple):
    """One model: seconds for each of its tokens, and for each time that its prompt was read."""

    guest: Guest
    steps_s: tuple[float, ...]
    prefill_s: tuple[float, ...]
    samples: int
    lost: int
    """Samples that were broken off."""
    tokens: int
    """Generated in each sample."""

    @property
    def best_decode_s(self) -> float:
        """The lowest tenth: whatever disturbs a token makes it longer, and hardly anything makes it shorter."""
        return (
            statistics.quantiles(self.steps_s, n=10, method="inclusive")[0]
            if len(self.steps_s) > 1
            else self.steps_s[0]
        )

    @property
    def typical_decode_s(self) -> float:
        """The median: what one gets."""
        return statistics.median(self.steps_s)

    @property
    def best_prefill_s(self) -> float:
        """The shortest, of few; 0 where no prompt was timed."""
        return min(self.prefill_s, default=0.0)

    @property
    def depth_tokens(self) -> int:
        """The tokens before the one in the middle of a sample."""
        return self.guest.depth_tokens + self.tokens // 2


class Rounds(NamedTuple):
    """What was measured, and who else used the processors meanwhile; None where that can't be seen."""

    measured: list[Measured]
    use: CpuUse | None
    missing: tuple[str, ...] = ()
    """The guests of which every sample took too long."""
    quiet: bool = True
    """Whether only rounds count in which others left the processors alone."""


def measure_in_rounds(
    system: System, guests: Iterable[Guest], threads: int, limits: Limits, progress: Progress
) -> Rounds:
    """Start an engine for each guest, measure them in turns, stop them; UserError where one can't be measured."""
    with ExitStack() as stack:
        running: list[_Running] = []
        for guest in (guests := list(guests)):
            progress("starting engines", len(running) / len(guests))
            engine = start_engine(system, guest.path, threads=threads, context=CONTEXT)
            running.append(_Running(guest, stack.enter_context(engine)))
        for one in running:
            one.tokens = _tokens_for(_sample(system, one, FEWEST_TOKENS, limits))
        return _watched(system, running, threads, limits, progress)


def _watched(system: System, running: Sequence[_Running], threads: int, limits: Limits, progress: Progress) -> Rounds:
    others = Others(system, [one.engine.pid for one in running])
    quiet = _take_turns(system, running, limits, progress, lambda: others.cpus_since_last() <= QUIET_SHARE * threads)
    counted = quiet if len(quiet) >= limits.fewest_rounds else None
    measured = [_measured(one, counted) for one in running]
    missing = tuple(one.guest.name for one in measured if not one.steps_s)
    return Rounds([one for one in measured if one.steps_s], others.use(), missing, quiet=counted is not None)


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
            _turn(system, one, number, limits)
        if was_quiet():
            quiet.add(number)
        number += 1
    return quiet


def _turn(system: System, one: _Running, number: int, limits: Limits) -> None:
    """One sample; deep ones only where a prompt is due, as the prompt must be read again each time."""
    deep, prompt = one.guest.depth_tokens > 1, number % PROMPT_EVERY == 0
    if deep and not prompt:
        return
    done = _sample(system, one, one.tokens, limits)
    read = done if deep else None
    if prompt and one.guest.prompt_tokens and not deep:
        read = _sample(system, one, 1, limits, one.guest.prompt_tokens)
    one.turns.append(_Turn(number, done, read.prefill_s if read else None))


def _sample(system: System, one: _Running, tokens: int, limits: Limits, prompt: int = 0) -> Sample | None:
    """One completion; None where it took so long that something else must have held the processors."""
    started = system.clock()
    text = "a" * (prompt or one.guest.depth_tokens)  # a byte is a token of every made-up model
    try:
        return read_sample(system, one.engine.url, text, tokens, limits.one_sample_s)
    except LookError as error:
        if one.engine.ended or system.clock() - started < limits.one_sample_s:
            raise UserError(f"{one.guest.name} could not be measured: {error.why}", "try again") from error
        return None


def _tokens_for(warm: Sample | None) -> int:
    """As many tokens as a moment holds."""
    fit = int(MOMENT_S / statistics.median(warm.steps_s)) if warm and warm.steps_s else FEWEST_TOKENS
    return max(FEWEST_TOKENS, min(MOST_TOKENS, fit))


def _measured(one: _Running, rounds: set[int] | None) -> Measured:
    """What the model showed in these rounds, or in all; in all too where these hold nothing of it."""
    turns = [turn for turn in one.turns if rounds is None or turn.round in rounds]
    if not any(turn.sample for turn in turns):
        turns = one.turns
    samples = [turn.sample for turn in turns if turn.sample]
    steps = tuple(step for sample in samples for step in sample.steps_s)
    prefill = tuple(turn.prefill_s for turn in turns if turn.prefill_s) or tuple(
        turn.prefill_s for turn in one.turns if turn.prefill_s
    )
    return Measured(one.guest, steps, prefill, len(samples), sum(not turn.sample for turn in turns), one.tokens)
