"""Everything that prose tells, as facts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from unslow.facts.account import Account
from unslow.facts.bounded import bounded
from unslow.facts.machine import Cpu, Gpu, Machine, Memory
from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import PastLoad, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Fact, Known, first_known, told
from unslow.think.words.comparisons import comparisons_told, slow_metric, slowdown_told, speed_told, versions_compared
from unslow.think.words.gpu_memory import with_each, with_usage
from unslow.think.words.hardware import machine_told
from unslow.think.words.lines import Line, printed, prose
from unslow.think.words.models import model_told
from unslow.think.words.numbers import contexts_of, numbers_told
from unslow.think.words.topics import remarks_told
from unslow.think.words.versions import versions_told


class Told(NamedTuple):
    """What a person says of one machine and one runtime."""

    machine: Machine
    subject: Subject


def read_words(lines: Sequence[str], source: str, numbers: Sequence[int] = ()) -> Told:
    """The facts in a text of prose; lines that a program printed are left to the logs. `numbers` are those of lines."""
    read, output = list(prose(lines, source, numbers)), list(printed(lines, source, numbers))
    found = numbers_told(read)
    refused = numbers_told(output, "runtime.gpu_refused")
    found = refused | found
    versions = versions_told(read)
    measured_before, measured_since = versions_compared(read)
    facts: dict[str, Any] = _of(found, "runtime.")
    runtime = Runtime(name=versions.name, version=versions.version, loads=_loads(read), **facts)
    machine = overlaid(
        machine_told(read),
        Machine(cpu=Cpu(**_of(found, "machine.cpu.")), memory=Memory(**_of(found, "machine.memory."))),
    )
    gpus = with_usage(_with_numbers(machine.gpus, _of(found, "machine.gpus.0.")), read)
    machine = msgspec.structs.replace(machine, gpus=with_each(gpus, _of(found, "machine.gpus.each.")))
    account = Account(
        remarks=_some(remarks_told(read, output), source),
        comparisons=_some(comparisons_told(read), source),
        slow_metric=slow_metric(read),
        slowdown=slowdown_told(read),
        version_before=first_known(measured_before, versions.before),
        version_since=first_known(measured_since, versions.since),
    )
    run = Run(decode_tokens_per_s=speed_told(read, "decode"), prefill_tokens_per_s=speed_told(read, "prefill"))
    subject = Subject(
        runtime=runtime,
        model=overlaid(model_told(read, versions.name.value_or("")), Model(**_of(found, "model."))),
        run=overlaid(run, Run(**_of(found, "run."))),
        account=account,
    )
    return Told(bounded(machine), bounded(subject))


def _of(found: dict[str, Known[Any]], prefix: str) -> dict[str, Known[Any]]:
    return {path.removeprefix(prefix): fact for path, fact in found.items() if path.startswith(prefix)}


def _with_numbers(gpus: Fact[tuple[Gpu, ...]], facts: dict[str, Known[Any]]) -> Fact[tuple[Gpu, ...]]:
    """The first GPU with what is said of "the GPU"."""
    if not isinstance(gpus, Known) or not gpus.value or not facts:
        return gpus
    first = bounded(overlaid(gpus.value[0], Gpu(index=gpus.value[0].index, **facts)))
    return Known((first, *gpus.value[1:]), gpus.origin, gpus.source)


def _some(items: tuple[Any, ...], source: str) -> Fact[tuple[Any, ...]]:
    return told(items, items[0].source if items else source) if items else NOT_LOOKED


def _loads(lines: Sequence[Line]) -> Fact[list[PastLoad]]:
    """Loads that a line tells of by their contexts, in turn."""
    for line in lines:
        contexts = contexts_of(line.text)
        if contexts:
            loads = [PastLoad(context_length=told(context, line.where), source=line.where) for context in contexts]
            return told(loads, line.where)
    return NOT_LOOKED
