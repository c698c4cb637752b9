"""A measurement with eyes on the machine: the sampler is told where each request was, and its summary joins the run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec

from unslow.facts.run import Completion, Run
from unslow.facts.telemetry import Span, Telemetry
from unslow.facts.values import Absence, Fact, Known, Unknown, failed, measured
from unslow.look.bench.guest import Target
from unslow.look.sampler import Sampler
from unslow.look.sampler.under_load import SOURCE, decode_phase, throttled_fraction, under_load
from unslow.look.system import LookError, System, unknown
from unslow.look.system.http import is_loopback

QUESTION = "telemetry"
"""The name under which a recording holds the summary; the samples themselves pass it by."""


@contextmanager
def watching(system: System, target: Target) -> Iterator[Sampler]:
    """A sampler around a measurement; it does not run where the server is on another machine."""
    sampler = Sampler(system, [target.pid] if target.pid is not None else [])
    if is_here(target):
        sampler.start()
    try:
        yield sampler
    finally:
        sampler.stop()


def is_here(target: Target) -> bool:
    """Whether the server runs on this machine, so that what this machine does has to do with it."""
    return target.pid is not None or is_loopback(urlsplit(target.url).hostname or "")


def note_completion(sampler: Sampler, completion: Completion, start_s: float) -> None:
    """Tell the sampler when the prompt was read and when tokens came, by the client's clock."""
    first, total = completion.client_first_token_s, completion.client_total_s
    if first is None or total is None:
        return
    prompt_s = min(completion.prefill_s, first)
    sampler.note(Span(phase="queue", start_s=start_s, end_s=start_s + first - prompt_s))
    sampler.note(Span(phase="prefill", start_s=start_s + first - prompt_s, end_s=start_s + first))
    sampler.note(Span(phase="decode", start_s=start_s + first, end_s=start_s + total))


def with_telemetry(system: System, run: Run, sampler: Sampler, question: str = QUESTION) -> Run:
    """The run with what was seen meanwhile; in a recording that holds none, the run as it is."""
    return joined_telemetry(run, read_telemetry(system, sampler, question))


def joined_telemetry(run: Run, telemetry: Fact[Telemetry]) -> Run:
    """The run with a summary, and with what causes want to know of it."""
    run = msgspec.structs.replace(run, telemetry=telemetry)
    if not isinstance(telemetry, Known):
        return run
    gpus = under_load(telemetry.value)
    return msgspec.structs.replace(
        run,
        gpus=measured(gpus, SOURCE) if gpus else run.gpus,
        cpu_throttled_fraction=throttled_fraction(telemetry.value),
        own_cpus=_processors(run.own_cpus, telemetry.value, "own_cpus"),
        others_cpus=_processors(run.others_cpus, telemetry.value, "others_cpus"),
    )


def _processors(known: Fact[float], telemetry: Telemetry, figure: str) -> Fact[float]:
    """What was counted around each answer; of one that was cut off, what the sampler saw meanwhile."""
    decode = decode_phase(telemetry)
    seen = decode.host.get(figure) if decode and isinstance(known, Unknown) else None
    return measured(max(0.0, seen.mean), SOURCE) if seen else known


def read_telemetry(system: System, sampler: Sampler, question: str = QUESTION) -> Fact[Telemetry]:
    """The summary, now or as it was recorded under this name."""
    try:
        raw = system.ask(question, lambda: _seen(sampler))
        return measured(msgspec.convert(raw, Telemetry), SOURCE)
    except LookError as error:
        return unknown(error)
    except msgspec.ValidationError as error:
        return failed(f"the telemetry does not fit: {error}")


def _seen(sampler: Sampler) -> Any:
    telemetry = sampler.telemetry()
    if not telemetry.samples:
        raise LookError("the machine was not watched", Absence.NOT_LOOKED, "measure on the machine of the server")
    return msgspec.to_builtins(telemetry)
