"""One benchmark from beginning to end: the protocol, the sweeps or two servers in turns; kept, compared, written.

Whatever happens on the way (Ctrl-C, a server that dies), what was measured until then is the result.
"""

import hashlib
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import product
from typing import NamedTuple

import msgspec

from unslow import __version__
from unslow.commands._bench_history import Form, check_meant, compare_with, export, with_figures
from unslow.commands._output import Progress
from unslow.commands.bench import BenchRequest, sweeps
from unslow.commands.bench.bencher import Bencher, BenchWish
from unslow.commands.bench.parts import read_tests, split_parts
from unslow.commands.bench.protocol import (
    LONG,
    MOST_IN_A_ROW,
    SHORT,
    WARM_UP,
    WARM_UP_TOKENS,
    Protocol,
    Remaining,
    given_up,
    requests_for,
    run_protocol,
    settle,
)
from unslow.commands.bench.request import parse_sweeps, protocol_of, resolve_request
from unslow.commands.bench.server import Own, Place, context_of, open_bencher, own_of, place_of
from unslow.commands.diagnose.discretion import Discretion
from unslow.facts.bench import (
    DECODE,
    LOAD,
    PREFILL,
    TOGETHER,
    Bench,
    Comparison,
    Difference,
    Failure,
    Pass,
    Spread,
    Sweep,
)
from unslow.facts.errors import UserError
from unslow.facts.run import Run, Telemetry
from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown, measured_fact
from unslow.look.stored.history import History, default_history
from unslow.look.system import System
from unslow.think.case.view import CaseView
from unslow.think.speed.calibration import mark_of
from unslow.think.stats.changes import BenchComparison, BenchResult, changes_between, suspect
from unslow.think.stats.comparison import compare_pairs
from unslow.think.stats.conditions import conditions_of, settings_of
from unslow.think.stats.figures import decode_rate, figures_of, prefill_rate
from unslow.think.stats.requirements import judge_requirement, parse_requirement

FINE, FOUND, COULD_NOT_RUN, CANNOT_TELL, INTERRUPTED = 0, 1, 2, 3, 130
ROUNDS, LOOKS = 6, 3  # Rounds until the first look; where it can't be told then, as many again, and once more
_RATES = {DECODE: (SHORT, decode_rate), PREFILL: (LONG, prefill_rate)}


class Ledger(NamedTuple):
    """Everything that was asked so far, of one server or of several with the same model, and what is known of them."""

    case: CaseView
    passes: Sequence[Pass]
    failures: Sequence[Failure]
    telemetry: Telemetry | None = None
    interrupted: bool = False


class Record:
    """One benchmark while it runs."""

    def __init__(
        self,
        system: System,
        request: BenchRequest,
        ledger: Callable[[], Ledger],
        progress: Progress,
        discretion: Discretion,
        history: History | None = None,
    ) -> None:
        self.sweeps: tuple[Sweep, ...] = ()
        self.notes: tuple[str, ...] = ()
        self._system, self._request, self._ledger, self._progress = system, request, ledger, progress
        self._discretion = discretion
        self._history = None if request.no_keep else history or default_history()
        self._taken_at, self._began_s = system.now(), system.clock()
        # A name that sorts by time, and that no other benchmark of that second has
        digest = hashlib.sha256(repr((request.target, self._began_s)).encode()).hexdigest()[:4]
        self._id = f"{self._taken_at[:19].replace('-', '').replace(':', '')}-{digest}"
        self._written = (0, 0)
        self._conditions = [parse_requirement(text) for text in request.require]
        self._try(lambda kept: kept.begin(self.bench()))

    def flush(self) -> None:
        """Write down what came since the last time, so that a killed benchmark loses little."""
        ledger, (answered, failed) = self._ledger(), self._written
        self._try(lambda kept: kept.append(self._id, ledger.passes[answered:], ledger.failures[failed:]))
        self._written = len(ledger.passes), len(ledger.failures)

    def finish(self) -> Bench:
        """The whole benchmark, kept."""
        bench, last = self.bench(), None
        if any(clause.of == "last" for condition in self._conditions for clause in condition.clauses):
            try:
                last = (self._history or default_history()).latest(bench)
            except UserError as error:
                self._progress.say(f"the previous benchmark is unknown: {error.message}")
        last = with_figures(last) if last else None
        held = tuple(judge_requirement(condition, bench, last) for condition in self._conditions)
        bench = msgspec.structs.replace(bench, requirements=held)
        self._try(lambda kept: kept.finish(bench))
        return bench

    def drop_if_empty(self) -> None:
        """Forget a benchmark for which nothing was asked: it would be listed as one that broke off."""
        ledger = self._ledger()
        if not ledger.passes and not ledger.failures:
            self._try(lambda kept: kept.forget(self._id))

    def bench(self) -> Bench:
        """The benchmark as it is now, without any key."""
        ledger, request = self._ledger(), self._request
        case, known = ledger.case, figures_of([] if request.sweep else ledger.passes)
        # What a prediction needs of the measurement: how deep in the context it was
        short = [done for done in ledger.passes if done.round and done.case == "short"]
        depths = [done.prompt_tokens + done.cached_tokens + done.generated_tokens / 2 for done in short]
        run = Run(depth_tokens=measured_fact(int(statistics.median(depths)), "benchmark requests")) if depths else Run()
        bench = Bench(
            id=self._id,
            unslow_version=__version__,
            taken_at=self._taken_at,
            seconds=round(self._system.clock() - self._began_s, 3),
            protocol="sweep" if request.sweep else protocol_of(request).name,
            runtime=case.runtime.name.value_or("unknown"),
            runtime_version=case.runtime.version.value_or(""),
            model=case.model.name.value_or("unknown"),
            model_bytes=case.model.weights_bytes.value_or(0),
            machine=mark_of(case.machine),
            settings=settings_of(case),
            conditions=conditions_of(ledger.telemetry, run, case.machine),
            passes=tuple(ledger.passes),
            failures=tuple(ledger.failures),
            figures=figures_of_sweeps(self.sweeps) if request.sweep else known.figures,
            samples=known.samples,
            expected=expected_of(case, run),
            sweeps=self.sweeps,
            telemetry=ledger.telemetry,
            notes=self.notes if request.sweep else (*known.notes, *self.notes),
            interrupted=ledger.interrupted,
            label=(request.label or "").encode("utf-8", "replace").decode(),
        )
        return self._discretion.facts(bench)

    def _try(self, write: Callable[[History], object]) -> None:
        """Write to the history; where that fails, it is said once, and the benchmark goes on."""
        if self._history is None:
            return
        try:
            write(self._history)
        except UserError as error:
            self._progress.say(f"cannot write the history: {error.message}; -o FILE saves this benchmark")
            self._history = None


def benchmark(request: BenchRequest, progress: Progress) -> BenchResult:
    """Measure, compare, write to the files that are named; one that can't be written does not cost the result."""
    request = resolve_request(request)
    if request.compare:
        check_meant(request.compare)
    result = measure_in_turns(request, progress) if request.against else measure_one(request, progress)
    try:
        if request.compare:
            result = result._replace(compared=compare_with(result.bench, request.compare))
    except UserError as error:
        progress.say(f"not compared: {error.message}")
        result = result._replace(not_compared=error.message)
    files: tuple[tuple[str | None, Form], ...] = ((request.output, "unslow"), (request.export, "llama-bench"))
    for path, form in files:
        try:
            if path:
                export(result.bench, path, form)
                progress.say(f"wrote {path}")
        except UserError as error:
            result = result._replace(unwritten=error)
    return result


def measure_one(request: BenchRequest, progress: Progress) -> BenchResult:
    """The protocol or the sweeps that the request asks for; UserError where nothing at all could be measured."""
    discretion = Discretion.about(request.api_key, request.target)
    shown = discretion.progress(progress)
    axes = [asked.axis for asked in parse_sweeps(request)]
    own = [axis for axis in axes if sweeps.module_of(axis).OWN_SERVER]
    with discretion.errors():
        if own and request.target:
            hint = "give --command (the command that starts it) or --model (a GGUF file), without a TARGET"
            raise UserError(f"{', '.join(own)}: set when a server starts, so unslow has to start one", hint)
        if own and len(own) < len(axes):
            others = ", ".join(axis for axis in axes if axis not in own)
            told = f"{', '.join(own)} starts its own servers, {others} uses a running one"
            raise UserError(told, "run them separately")
        place = place_of(request.target, request.api_key or "", shown)
        if not own:
            return _ask_server(place, request, shown, discretion)
        return BenchResult(_sweep_own_servers(own_of(place, request, shown), request, discretion))


def _ask_server(place: Place, request: BenchRequest, progress: Progress, discretion: Discretion) -> BenchResult:
    with open_bencher(place, request, progress) as bencher:
        if request.llama_bench:
            read_tests(place.system, request.llama_bench, bencher.subject.model)  # a wrong file is told at once
        record, protocol = _record(bencher, request, progress, discretion), protocol_of(request)
        parts = None
        try:
            if not bencher.subject.runtime.embedded:
                requests = (
                    f"{requests_for(protocol, bencher.target.runtime)} requests of up to {protocol.tokens} tokens"
                )
                what = ", ".join(asked.axis for asked in parse_sweeps(request))
                progress.say(f"sending {f'a sweep over {what}' if what else requests} to {bencher.target.url}")
            # The sweeps that were asked for, else the protocol
            if not request.sweep:
                why = run_protocol(bencher, protocol.within(context_of(bencher)))
                record.notes += (why,) if why else ()
            _sweep(bencher, request, record)
            if request.parts and not bencher.interrupted:
                parts = split_parts(bencher, request.llama_bench)
        except KeyboardInterrupt:
            bencher.interrupted = True
        except UserError:
            record.drop_if_empty()
            raise
        if request.series and bencher.sampler:
            try:
                bencher.sampler.write_series(request.series)
            except UserError as error:  # costs nothing else
                record.notes += (f"the samples were not written: {error.message}",)
        return BenchResult(record.finish(), parts)


def _sweep(asks: Bencher | Own, request: BenchRequest, record: Record) -> None:
    """One sweep after the other; one that can't be done does not cost what was measured before it."""
    limits = sweeps.Limits(repeats=protocol_of(request).rounds)
    limits = limits._replace(tokens=48, seconds=180.0) if request.quick else limits
    limits = limits._replace(tokens=request.tokens) if request.tokens else limits
    for asked in parse_sweeps(request):
        try:
            found: Sweep = sweeps.module_of(asked.axis).sweep(asks, limits._replace(values=asked.values))
        except UserError as error:
            if not record.sweeps:
                raise
            record.notes += (f"{asked.axis}: {error.message}",)
            continue
        record.sweeps += (found,)
        record.flush()
        if asks.interrupted:
            break


def _sweep_own_servers(own: Own, request: BenchRequest, discretion: Discretion) -> Bench:
    def ledger() -> Ledger:
        return Ledger(own.case or CaseView(Case(machine=own.machine)), own.passes, own.failures, None, own.interrupted)

    record = Record(own.system, request, ledger, own.progress, discretion)
    own.flush = record.flush
    try:
        _sweep(own, request, record)
    except KeyboardInterrupt:
        own.interrupted = True
    return record.finish()


def measure_in_turns(request: BenchRequest, progress: Progress) -> BenchResult:
    """The request's server and another one in turns; the first is held against the second."""
    sides = [request._replace(target=target) for target in (request.against, request.target)]
    discretion = Discretion(tuple(key for side in sides for key in Discretion.about(side.api_key, side.target).keys))
    shown = discretion.progress(progress)
    with discretion.errors(), ExitStack() as stack:
        places = [place_of(side.target, side.api_key or "", shown) for side in sides]
        pairs = zip(places, sides, strict=True)
        benchers = [stack.enter_context(open_bencher(place, side, shown)) for place, side in pairs]
        if benchers[0].target.url == benchers[1].target.url:
            raise UserError("both are the same server", "--against takes the URL of another server")
        records = [_record(*side, shown, discretion) for side in zip(benchers, sides, strict=True)]
        try:
            why = _ask_in_turns(benchers, protocol_of(request), shown)
        except KeyboardInterrupt:
            why = ""
            for bencher in benchers:
                bencher.interrupted = True
        for record in records:
            record.notes += (why,) if why else ()
        before, after = (record.finish() for record in records)
        comparison, changes = _compared_pairs(before, after, benchers), changes_between(before, after)
        reason = suspect(comparison, changes)
        return BenchResult(
            after, None, BenchComparison(before=before, comparison=comparison, changes=changes, suspect=reason)
        )


def _record(bencher: Bencher, request: BenchRequest, progress: Progress, discretion: Discretion) -> Record:
    def ledger() -> Ledger:
        telemetry = bencher.sampler.telemetry() if bencher.sampler else None
        return Ledger(bencher.case, bencher.passes, bencher.failures, telemetry, bencher.interrupted)

    record = Record(bencher.system, request, ledger, progress, discretion)
    bencher.flush = record.flush
    return record


def _ask_in_turns(benchers: list[Bencher], protocol: Protocol, progress: Progress) -> str:
    """Rounds of the same questions, and who goes first changes with every round; why it ended before its time."""
    for bencher in benchers:
        protocol = protocol.within(context_of(bencher))
        bencher.ask(BenchWish(WARM_UP, WARM_UP_TOKENS, round=0))
    rounds, questions = max(ROUNDS, protocol.rounds), protocol.cases[1:]  # one of each kind
    remaining = Remaining(progress)
    remaining.announce([*questions, *questions] * rounds)
    for number in range(1, LOOKS * rounds + 1):
        for wanted, bencher in product(questions, benchers if number % 2 else benchers[::-1]):
            remaining.step(f"round {number}, {bencher.target.url}", wanted)
            remaining.done(wanted, bencher.ask(wanted._replace(round=number)))
            settle(bencher)
            if given_up(bencher):
                return f"{MOST_IN_A_ROW} requests in a row failed at {bencher.target.url}"
        if number % rounds:  # few looks: each is another chance to be wrong
            continue
        found = _difference(DECODE, benchers)
        if found is not None and found.verdict != "cannot_tell":
            break
    progress.step("measured", 1.0)
    return ""


def _compared_pairs(before: Bench, after: Bench, benchers: list[Bencher]) -> Comparison:
    found = [one for metric in _RATES if (one := _difference(metric, benchers))]
    verdicts = [one.verdict for one in found]
    telling = next((v for v in ("slower", "faster") if v in verdicts), verdicts[0] if verdicts else "cannot_tell")
    words = "; ".join(f"{one.metric.partition('_')[0]}: {one.because}" for one in found)
    return Comparison(
        before=before.id,
        after=after.id,
        verdict=telling,
        because=words or "no pair of requests succeeded",
        differences=tuple(found),
        notes=(f"{benchers[1].target.url} compared with {benchers[0].target.url}, in alternation",),
    )


def _difference(metric: str, benchers: list[Bencher]) -> Difference | None:
    case, rate = _RATES[metric]
    by_round = [
        {done.round: value for done in b.passes if done.round and done.case == case and (value := rate(done))}
        for b in benchers
    ]
    pairs = [(by_round[0][number], by_round[1][number]) for number in by_round[0] if number in by_round[1]]
    return compare_pairs(metric, pairs) if pairs else None


def figures_of_sweeps(sweeps: Sequence[Sweep]) -> dict[str, Spread]:
    """What a condition may be set on: what many users get together at best, and how long the last start took."""
    found: dict[str, Spread] = {}
    for sweep in sweeps:
        together = [point.figures[TOGETHER] for point in sweep.points if TOGETHER in point.figures]
        starts = [point.figures[LOAD] for point in sweep.points if LOAD in point.figures]
        found |= {TOGETHER: max(together, key=lambda spread: spread.median)} if together else {}
        found |= {LOAD: starts[-1]} if starts else {}
    return found


def expected_of(case: CaseView, run: Run) -> dict[str, float]:
    """The speed that physics expects of it as it is set up; nothing where it can't tell."""
    at_depth = msgspec.structs.replace(case.run, depth_tokens=run.depth_tokens)
    outlook = case.replace(run=at_depth).speed.predict()
    if isinstance(outlook, Unknown):
        return {}
    speed = outlook.tokens_per_s
    return {DECODE: speed.mid, f"{DECODE}_low": speed.low, f"{DECODE}_high": speed.high}


def exit_status(result: BenchResult) -> int:
    """1 where it is slower or a condition does not hold, 3 where that can't be told."""
    bench = result.bench
    if bench.interrupted:
        return INTERRUPTED  # whatever a gate asked for was not measured whole
    if result.unwritten or not (bench.figures or bench.sweeps):
        return COULD_NOT_RUN
    holds = [one.holds for one in bench.requirements]
    verdict = result.compared.verdict if result.compared else "cannot_tell" if result.not_compared else "same"
    if False in holds or verdict == "slower":
        return FOUND
    return CANNOT_TELL if None in holds or verdict == "cannot_tell" else FINE
