"""One benchmark from beginning to end: the protocol, the sweeps, the result; kept, compared, held against conditions.

Whatever happens on the way (Ctrl-C, a server that dies), what was measured until then is the result.
"""

from typing import NamedTuple

from unslow.app.bench import sweeps
from unslow.app.bench.bencher import Bencher
from unslow.app.bench.llama_bench_tests import read_tests
from unslow.app.bench.own import Own
from unslow.app.bench.parts import Parts, split_parts
from unslow.app.bench.record import Ledger, Record, ledger_of
from unslow.app.bench.request import Asked, Request
from unslow.app.bench.server import Place, context_of, opened, own_of, place_of
from unslow.app.bench.standard import requests_of, run_protocol
from unslow.app.discretion import Discretion
from unslow.app.progress import Progress
from unslow.app.read_target import as_url
from unslow.facts.bench import Bench, Sweep
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Case


class Outcome(NamedTuple):
    """A finished benchmark, and what it is next to an earlier one."""

    bench: Bench
    parts: Parts | None = None


def bench(request: Request, progress: Progress) -> Outcome:
    """Measure what the request asks for; UserError where nothing at all could be measured."""
    discretion = Discretion.about(request.manners.api_key, as_url(request.target or ""))
    shown = discretion.progress(progress)
    with discretion.errors():
        own = _starts_own(request)
        place = place_of(request.target, request.manners.api_key or "", shown)
        return _own_sweeps(place, request, shown, discretion) if own else _asked(place, request, shown, discretion)


def _starts_own(request: Request) -> bool:
    """Whether it varies what is set when a server starts; one that runs can't be asked about that."""
    own = [asked.axis for asked in request.sweeps if sweeps.module_of(asked.axis).OWN_SERVER]
    if own and request.target:
        hint = "give --command, the command that starts it, or --model, a GGUF file, and no TARGET"
        raise UserError(f"{', '.join(own)}: set when a server starts, so a server of its own is needed", hint)
    if own and len(own) < len(request.sweeps):
        others = ", ".join(asked.axis for asked in request.sweeps if asked.axis not in own)
        raise UserError(
            f"{', '.join(own)} starts servers of its own, {others} asks one that runs", "ask for them apart"
        )
    return bool(own)


def _asked(place: Place, request: Request, progress: Progress, discretion: Discretion) -> Outcome:
    with opened(place, request, progress) as bencher:
        if request.llama_bench:
            read_tests(place.system, request.llama_bench, bencher.subject.model)  # a wrong file is told at once
        record = Record(place.system, request, lambda: ledger_of(bencher), progress, discretion)
        bencher.flush = record.flush
        parts = None
        try:
            _announce(bencher, request, progress)
            _measure(bencher, request, record)
            if request.parts and not bencher.interrupted:
                parts = split_parts(bencher, request.llama_bench)
        except KeyboardInterrupt:
            bencher.interrupted = True
        except UserError:
            record.drop_if_empty()
            raise
        record.notes += _series_note(bencher, request.series)
        return Outcome(record.finished(), parts)


def _series_note(bencher: Bencher, path: str | None) -> tuple[str, ...]:
    """Write the series that was asked for; what went wrong with it costs nothing else."""
    if not path or not bencher.sampler:
        return ()
    try:
        bencher.sampler.write_series(path)
    except UserError as error:
        return (f"the series was not written: {error.message}",)
    return ()


def _measure(bencher: Bencher, request: Request, record: Record) -> None:
    """The sweeps that were asked for, else the protocol."""
    if not request.sweeps:
        why = run_protocol(bencher, request.protocol.within(context_of(bencher)))
        record.notes += (why,) if why else ()
    _sweep(bencher, request, record)


def _sweep(asks: Bencher | Own, request: Request, record: Record) -> None:
    """One sweep after the other; one that can't be done does not cost what was measured before it."""
    for asked in request.sweeps:
        try:
            found: Sweep = sweeps.module_of(asked.axis).sweep(asks, _limits(asked, request))
        except UserError as error:
            if not record.sweeps:
                raise
            record.notes += (f"{asked.axis}: {error.message}",)
            continue
        record.sweeps += (found,)
        record.flush()
        if asks.interrupted:
            break


def _own_sweeps(place: Place, request: Request, progress: Progress, discretion: Discretion) -> Outcome:
    own = own_of(place, request, progress)
    record = Record(place.system, request, lambda: _ledger(own), progress, discretion)
    own.flush = record.flush
    try:
        _sweep(own, request, record)
    except KeyboardInterrupt:
        own.interrupted = True
    return Outcome(record.finished())


def _ledger(own: Own) -> Ledger:
    return Ledger(own.case or Case(machine=own.machine), own.passes, own.failures, None, own.interrupted)


def _limits(asked: Asked, request: Request) -> sweeps.Limits:
    limits = sweeps.Limits(asked.values, repeats=request.protocol.rounds)
    limits = limits._replace(tokens=48, seconds=180.0) if request.manners.quick else limits
    return limits._replace(tokens=request.tokens) if request.tokens else limits


def _announce(bencher: Bencher, request: Request, progress: Progress) -> None:
    if bencher.subject.runtime.embedded or request.manners.quick is None:
        return
    count, tokens = requests_of(bencher, request.protocol), request.protocol.tokens
    what = ", ".join(asked.axis for asked in request.sweeps)
    said = f"a sweep over {what}" if what else f"{count} requests of up to {tokens} tokens"
    progress.say(f"sending {said} to {bencher.target.url}")
