"""The known facts of a case by path, each one plain value, so that instances can be held against one another."""

import statistics
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from unslow.facts.snapshot import Case
from unslow.facts.values import NOT_LOOKED, Known, Unknown
from unslow.think.fleet.telling import WORSE, can_be_a_reason
from unslow.think.report import Scalar

PARTS = ("machine", "runtime", "model", "run")
"""Of a case: what a person tells and what was measured earlier is of no instance of a fleet."""
LONGEST_TEXT = 160
"""Of a value; a longer one, such as a list of instruction sets, differs within it or is too much to read."""
MOST_FACTS = 400
MOST_GPUS = 64
_FOLDED = ("machine.gpus", "run.gpus")
"""Lists of GPUs: of each fact the GPU that is worst off speaks, since all others wait for it."""
_LEFT_OUT = frozenset({
    "machine.disks", "machine.load.busiest", "model.metadata", "model.tensors", "run.busiest_others",
    "run.completions", "run.depths", "run.at_once", "run.routes", "run.telemetry", "run.turns", "run.earlier",
    "run.traffic.prompts", "runtime.buffers", "runtime.devices", "runtime.loads", "runtime.command",
    "runtime.environment", "runtime.warnings", "runtime.bytes_by_node", "machine.gpus.processes",
})  # fmt: skip
"""What is a list of things and no value, or names and addresses."""


def flat_facts(case: Case) -> dict[str, Scalar]:
    """Every known fact that may be a reason for its speed; of several GPUs the worst value, under that GPU's number."""
    facts = [fact for part in PARTS for fact in _facts_of(getattr(case, part), part)]
    return dict(facts[:MOST_FACTS])


@lru_cache(maxsize=256)  # each kind of struct lies at one or two places
def _fields(kind: type[msgspec.Struct], path: str) -> tuple[tuple[str, str], ...]:
    """Of the fields that are looked at, the names and the whole paths."""
    named = ((field.name, f"{path}.{field.name}") for field in msgspec.structs.fields(kind))
    return tuple((name, below) for name, below in named if below not in _LEFT_OUT and can_be_a_reason(below))


def _facts_of(struct: msgspec.Struct, path: str) -> list[tuple[str, Scalar]]:
    found: list[tuple[str, Scalar]] = []
    for name, below in _fields(type(struct), path):
        value: Any = getattr(struct, name)
        if value is NOT_LOOKED or isinstance(value, Unknown):
            continue
        value = value.value if isinstance(value, Known) else value
        if below in _FOLDED:
            found += _of_gpus(value, below)
        elif isinstance(value, msgspec.Struct):
            found += _facts_of(value, below)
        elif (plain := _plain(value)) is not None:
            found.append((below, plain))
    return found


def _plain(value: Any) -> Scalar | None:
    """A value as one: texts cut, lists of names in their order, of numbers the median."""
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return value[:LONGEST_TEXT]
    if not isinstance(value, list | tuple):
        return None
    if all(isinstance(one, str) for one in value):
        return ", ".join(sorted(value))[:LONGEST_TEXT] or "none"
    return float(statistics.median(value)) if all(isinstance(one, int | float) for one in value) else None


def _of_gpus(gpus: Any, path: str) -> Iterator[tuple[str, Scalar]]:
    """Each fact of the GPU on which it is worst, under `path.number`."""
    seen: dict[str, dict[int, Scalar]] = {}
    for number, gpu in enumerate(gpus[:MOST_GPUS]):
        for below, value in _facts_of(gpu, path):
            seen.setdefault(below, {})[number] = value
    for below, values in seen.items():
        name = below.removeprefix(f"{path}.")
        number = _worst(name, values)
        yield f"{path}.{number}.{name}", values[number]


def _worst(name: str, values: Mapping[int, Scalar]) -> int:
    """The number of the GPU that holds the others back; of what has no worse end, the first unlike the first."""
    numbers = list(values)
    amounts = {number: float(value) for number, value in values.items() if isinstance(value, int | float)}
    way = WORSE.get(name, 0)
    if way and amounts:
        return max(amounts, key=lambda number: (way * amounts[number], -number))
    return next((number for number in numbers if values[number] != values[numbers[0]]), numbers[0])
