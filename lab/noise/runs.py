"""One benchmark after the other on a server of our own: as it is, slowed down, as it is, and so on."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import msgspec
from lab.noise.slowed import Slowed

from unslow.commands.bench.bencher import Bencher
from unslow.commands.bench.protocol import Protocol, run_protocol
from unslow.commands.bench.server import Own
from unslow.facts.bench import Bench, Pass
from unslow.facts.machine import Machine
from unslow.look.system.live import LiveSystem
from unslow.think.stats.figures import figures_of
from unslow.think.stats.repeats import spread_of

KINDS = ("plain", "slowed")
"""One turn: a benchmark as it is, and one that is slowed down."""


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """A benchmark with what its figures were made from, and nothing more, so that a file of many stays small."""

    turn: int
    kind: str
    samples: dict[str, tuple[float, ...]]
    seconds: float
    waits: tuple[tuple[float, float], ...] = ()
    """Of each request: how long it took, and how long the server's threads waited for a processor."""
    stopped: float = 0.0
    """The share of the time for which the server was stopped."""

    @property
    def bench(self) -> Bench:
        """The benchmark as the statistics take it."""
        return Bench(
            id=f"{self.turn}-{self.kind}",
            unslow_version="",
            taken_at=f"{self.turn:06}-{KINDS.index(self.kind)}",
            seconds=self.seconds,
            protocol="quick",
            runtime="llama.cpp",
            model="the same",
            figures={name: spread_of(values) for name, values in self.samples.items()},
            samples=self.samples,
            passes=tuple(_waiting(total, waited) for total, waited in self.waits),
        )


class Recording(msgspec.Struct, frozen=True):
    """Every run, and how they were made."""

    command: str
    restart: bool
    share: float
    tokens: int
    runs: tuple[Run, ...]


class Plan(NamedTuple):
    """What to do how often."""

    turns: int
    restart: bool
    share: float
    period_s: float
    protocol: Protocol


class Silent:
    """Progress that nobody sees: this program shows its own."""

    def say(self, text: str) -> None:
        """Nothing."""

    def step(self, text: str, share: float) -> None:
        """Nothing."""


def runs_of(model: str | None, command: str | None, plan: Plan) -> Iterator[Run]:
    """Measure them all, one by one; servers are started anew for each where the plan says so."""
    own = Own.from_request(LiveSystem(), Machine(), Silent(), model=model, command=command)
    began, wanted = (
        time.monotonic(),
        [*((turn, kind) for turn in range(plan.turns) for kind in KINDS), (plan.turns, "plain")],
    )
    groups = [[one] for one in wanted] if plan.restart else [wanted]
    done = 0
    for group in groups:
        with own.start({}) as bencher:
            for turn, kind in group:
                _show(done, len(wanted), time.monotonic() - began)
                yield _run(bencher, turn, kind, plan)
                done += 1
    _show(done, len(wanted), time.monotonic() - began)
    print(file=sys.stderr)


def _show(done: int, whole: int, seconds: float) -> None:
    left = f", about {seconds / done * (whole - done) / 60:.0f} min left" if done else ""
    print(f"\r{done} of {whole} benchmarks{left}        ", end="", file=sys.stderr, flush=True)


def _run(bencher: Bencher, turn: int, kind: str, plan: Plan) -> Run:
    pid, start, first = bencher.target.pid, time.monotonic(), len(bencher.passes)
    if pid is None:
        raise SystemExit("the server's process is not known, so it can't be slowed down")
    slowed = Slowed(pid, plan.share, plan.period_s)
    slowing: AbstractContextManager[object] = slowed if kind == "slowed" else nullcontext()
    with slowing:
        why = run_protocol(bencher, plan.protocol)
    if why:
        raise SystemExit(f"\n{why}")
    passes = bencher.passes[first:]
    samples = {name: tuple(float(f"{v:.6g}") for v in vs) for name, vs in figures_of(passes).samples.items()}
    return Run(turn, kind, samples, round(time.monotonic() - start, 2), _waits(passes), round(slowed.got, 4))


def _waits(passes: Sequence[Pass]) -> tuple[tuple[float, float], ...]:
    known = [done for done in passes if done.round and done.waited_for_cpu_s is not None]
    return tuple((round(done.client_total_s, 3), round(done.waited_for_cpu_s or 0.0, 4)) for done in known)


def _waiting(total_s: float, waited_s: float) -> Pass:
    """A request of which only this is known."""
    return Pass(
        case="short",
        round=1,
        started_s=0.0,
        asked_tokens=0,
        prompt_tokens=0,
        generated_tokens=0,
        client_first_token_s=0.0,
        client_last_token_s=total_s,
        client_total_s=total_s,
        waited_for_cpu_s=waited_s,
    )
