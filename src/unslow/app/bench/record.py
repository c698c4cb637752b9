"""The benchmark as it grows: the bencher's ledger with its conditions, written down now and then, whole in the end."""

import hashlib
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from unslow import __version__
from unslow.app.bench.bencher import Bencher
from unslow.app.bench.history import figured
from unslow.app.bench.request import Request
from unslow.app.discretion import Discretion
from unslow.app.progress import Progress
from unslow.facts.bench import DECODE, LOAD, TOGETHER, Bench, Failure, Pass, Spread, Sweep
from unslow.facts.errors import UserError
from unslow.facts.run import Run
from unslow.facts.snapshot import Case
from unslow.facts.telemetry import Telemetry
from unslow.facts.values import Unknown, measured
from unslow.look.history import History, default_history
from unslow.look.system import System
from unslow.think.bench.conditions import conditions_of, settings_of
from unslow.think.bench.figures import figures_of
from unslow.think.bench.require import judged
from unslow.think.calibrate import mark_of
from unslow.think.predict import predict


def bench_id(taken_at: str, *others: object) -> str:
    """A name that sorts by time, and that no other benchmark of that second has."""
    digest = hashlib.sha256(repr(others).encode()).hexdigest()[:4]
    return f"{taken_at[:19].replace('-', '').replace(':', '')}-{digest}"


class Ledger(NamedTuple):
    """Everything that was asked so far, of one server or of several with the same model, and what is known of them."""

    case: Case
    passes: Sequence[Pass]
    failures: Sequence[Failure]
    telemetry: Telemetry | None = None
    interrupted: bool = False


def ledger_of(bencher: Bencher) -> Ledger:
    """The ledger of one bencher."""
    telemetry = bencher.sampler.telemetry() if bencher.sampler else None
    return Ledger(bencher.case, bencher.passes, bencher.failures, telemetry, bencher.interrupted)


class Record:
    """One benchmark while it runs."""

    def __init__(
        self,
        system: System,
        request: Request,
        ledger: Callable[[], Ledger],
        progress: Progress,
        discretion: Discretion,
        history: History | None = None,
    ) -> None:
        self.sweeps: tuple[Sweep, ...] = ()
        self.notes: tuple[str, ...] = ()
        self._system, self._request, self._ledger, self._progress = system, request, ledger, progress
        self._discretion = discretion
        self._history = (history or default_history()) if request.keep else None
        self._taken_at, self._began_s = system.now(), system.clock()
        self._id = bench_id(self._taken_at, request.target, self._began_s)
        self._written = (0, 0)
        self._try(lambda kept: kept.begin(self.bench()))

    def flush(self) -> None:
        """Write down what came since the last time, so that a killed benchmark loses little."""
        ledger, (answered, failed) = self._ledger(), self._written
        self._try(lambda kept: kept.append(self._id, ledger.passes[answered:], ledger.failures[failed:]))
        self._written = len(ledger.passes), len(ledger.failures)

    def finished(self) -> Bench:
        """The whole benchmark, kept."""
        bench = self.bench()
        last = self._last(bench)
        held = tuple(judged(condition, bench, last) for condition in self._request.require)
        bench = msgspec.structs.replace(bench, requirements=held)
        self._try(lambda kept: kept.finish(bench))
        return bench

    def drop_if_empty(self) -> None:
        """Forget a benchmark for which nothing was asked: it would be listed as one that broke off."""
        ledger = self._ledger()
        if not ledger.passes and not ledger.failures:
            self._try(lambda kept: _forget(kept, self._id))

    def bench(self) -> Bench:
        """The benchmark as it is now, without any key."""
        return self._discretion.facts(self._bench())

    def _bench(self) -> Bench:
        ledger, request = self._ledger(), self._request
        case, known = ledger.case, figures_of([] if request.sweeps else ledger.passes)
        run = run_of(ledger.passes)
        return Bench(
            id=self._id,
            unslow_version=__version__,
            taken_at=self._taken_at,
            seconds=round(self._system.clock() - self._began_s, 3),
            protocol="sweep" if request.sweeps else request.protocol.name,
            runtime=case.runtime.name.value_or("unknown"),
            runtime_version=case.runtime.version.value_or(""),
            model=case.model.name.value_or("unknown"),
            model_bytes=case.model.weights_bytes.value_or(0),
            machine=mark_of(case.machine),
            settings=settings_of(case),
            conditions=conditions_of(ledger.telemetry, run, case.machine),
            passes=tuple(ledger.passes),
            failures=tuple(ledger.failures),
            figures=figures_of_sweeps(self.sweeps) if request.sweeps else known.figures,
            samples=known.samples,
            expected=expected_of(case, run),
            sweeps=self.sweeps,
            telemetry=ledger.telemetry,
            notes=self.notes if request.sweeps else (*known.notes, *self.notes),
            interrupted=ledger.interrupted,
            label=request.label,
        )

    def _last(self, bench: Bench) -> Bench | None:
        """The benchmark before this one, where a condition speaks of it; None where the history can't be read."""
        asked = any(clause.of == "last" for condition in self._request.require for clause in condition.clauses)
        try:
            last = (self._history or default_history()).latest(bench) if asked else None
        except UserError as error:
            self._progress.say(f"the benchmark before this one is not known: {error.message}")
            return None
        return figured(last) if last else None

    def _try(self, write: Callable[[History], None]) -> None:
        """Write to the history; where that fails, it is said once, and the benchmark goes on."""
        if self._history is None:
            return
        try:
            write(self._history)
        except UserError as error:
            self._progress.say(f"the history can't be written: {error.message}; -o FILE keeps this benchmark")
            self._history = None


def figures_of_sweeps(sweeps: Sequence[Sweep]) -> dict[str, Spread]:
    """What a condition may be set on: what many users get together at best, and how long the last start took."""
    found: dict[str, Spread] = {}
    for sweep in sweeps:
        together = [point.figures[TOGETHER] for point in sweep.points if TOGETHER in point.figures]
        starts = [point.figures[LOAD] for point in sweep.points if LOAD in point.figures]
        found |= {TOGETHER: max(together, key=lambda spread: spread.median)} if together else {}
        found |= {LOAD: starts[-1]} if starts else {}
    return found


def _forget(history: History, name: str) -> None:
    history.forget(name)


def run_of(passes: Sequence[Pass]) -> Run:
    """What a prediction needs of the measurement: how deep in the context it was."""
    short = [done for done in passes if done.round and done.case == "short"]
    if not short:
        return Run()
    depth = statistics.median(done.prompt_tokens + done.cached_tokens + done.generated_tokens / 2 for done in short)
    return Run(depth_tokens=measured(int(depth), "the requests of the benchmark"))


def expected_of(case: Case, run: Run) -> dict[str, float]:
    """The speed that physics expects of it as it is set up; nothing where it can't tell."""
    outlook = predict(
        msgspec.structs.replace(case, run=msgspec.structs.replace(case.run, depth_tokens=run.depth_tokens))
    )
    if isinstance(outlook, Unknown):
        return {}
    speed = outlook.tokens_per_s
    return {DECODE: speed.mid, f"{DECODE}_low": speed.low, f"{DECODE}_high": speed.high}
