"""Blocks of a tool's output within a larger text, read by that tool's own parser."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from unslow.facts.machine import Gpu, Machine
from unslow.facts.merge import overlaid
from unslow.facts.values import NOT_LOOKED, Fact, reported
from unslow.look.logs.blocks import Span, block, spans_of
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.gpu_builder import by_index

T = TypeVar("T")

_MOST_BLOCKS = 64  # a log that samples for hours repeats itself; the last ones count


class Form(NamedTuple):
    """How a block begins, and how its further lines look."""

    starts: re.Pattern[str]
    goes_on: re.Pattern[str]


def form(starts: str, goes_on: str) -> Form:
    """A form by its two patterns."""
    return Form(re.compile(starts), re.compile(goes_on))


def seen_gpus(text: Text, forms: Sequence[Form], parse: Callable[[str, str, int], tuple[Gpu, ...]]) -> Seen:
    """The GPUs of all blocks, by index."""
    found = [(span, gpus) for span in _spans(text, forms) if (gpus := _parsed(text, span, parse))]
    if not found:
        return Seen()
    gpus = by_index(*(gpus for _, gpus in found))
    spans = tuple(span for span, _ in found)
    return _seen(Machine(gpus=reported(gpus, text.where(spans[0][0]))), spans)


def seen_machine(text: Text, forms: Sequence[Form], parse: Callable[[str, str, int], Machine]) -> Seen:
    """The machine as all blocks show it; the last one counts."""
    found = [(span, said) for span in _spans(text, forms) if (said := _parsed(text, span, parse)) != Machine()]
    machine = Machine()
    gpus: Fact[tuple[Gpu, ...]] = NOT_LOOKED
    for _, said in found:
        machine = overlaid(machine, Machine(system=said.system, cpu=said.cpu, memory=said.memory))
        gpus = said.gpus if said.gpus != NOT_LOOKED else gpus
    return _seen(overlaid(machine, Machine(gpus=gpus)), tuple(span for span, _ in found)) if found else Seen()


def _parsed(text: Text, span: Span, parse: Callable[[str, str, int], T]) -> T:
    return parse(block(text, span), text.source, text.number(span[0]))


def _spans(text: Text, forms: Sequence[Form]) -> list[Span]:
    return sorted({span for one in forms for span in spans_of(text, *one)})[-_MOST_BLOCKS:]


def _seen(machine: Machine, spans: tuple[Span, ...]) -> Seen:
    return Seen(machine=machine, lines=sum(end - first for first, end in spans), spans=spans)
