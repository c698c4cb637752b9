"""Blocks, lines and amounts within a larger text: where they stand, and facts that say so."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from unslow.facts.machine import Facts, Gpu, Machine
from unslow.facts.merge import overlaid
from unslow.facts.values import GIB, KIB, MHZ, MIB, NOT_LOOKED, Fact, Known, not_supported, reported_fact
from unslow.look.logs.dialect import LogFacts, Text, TextDialect
from unslow.look.logs.gpu_facts import by_index

T = TypeVar("T")
Span = tuple[int, int]
Form = tuple[re.Pattern[str], re.Pattern[str]]
_MOST_BLANK = 2
_CLOSED = _MOST_BLANK + 1  # This many blank lines end a block
_MOST_BLOCKS = 64  # a log that samples for hours repeats itself; the last ones count
_MOST_BEFORE = 2000
_LONGEST_LINE = 4096
_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")
# A comma is a decimal one (Task Manager follows the country), but not where three digits follow: those are thousands.
_AMOUNT = re.compile(
    r"(?<![\w.])x?(-?\d{1,18}(?:\.\d{1,9}|,\d{1,2}(?!\d))?)(?!\.?\d|[eE][+-]?\d)\s*(?:°\s*)?([A-Za-z%]{0,4})"
)
_NOTHING = ("", "n/a", "na", "none", "unsupported", "unknown", "-", "[n/a]")
# These tools count memory in powers of two, whether they call it MB or MiB.
_SIZES = {"b": 1, "kb": KIB, "kib": KIB, "mb": MIB, "mib": MIB, "gb": GIB, "gib": GIB, "k": KIB, "m": MIB, "g": GIB,
          "tb": 1024 * GIB, "tib": 1024 * GIB}  # fmt: skip
_SCALES = {"": 1, "%": 0.01, "c": 1, "w": 1, "mw": 1e-3, "mhz": MHZ, "ghz": 1e3 * MHZ, "hz": 1, "x": 1, **_SIZES}


class NumberedLine(NamedTuple):
    """A line without colours, and where it stands: `NAME:LINE`."""

    source: str
    text: str


def block_form(starts: str, goes_on: str) -> Form:
    """How a block begins, and how its further lines look."""
    return re.compile(starts), re.compile(goes_on)


def seen_gpus(text: Text, forms: Sequence[Form], parse: Callable[[str, str, int], tuple[Gpu, ...]]) -> LogFacts:
    """The GPUs of all blocks, by index."""
    found = _parsed_blocks(text, forms, parse, ())
    if not found:
        return LogFacts()
    gpus = reported_fact(by_index(*found.values()), text.where(next(iter(found))[0]))
    return LogFacts(machine=Machine(gpus=gpus), lines=sum(end - first for first, end in found), spans=tuple(found))


def machine_dialect(starts: str, goes_on: str, parse: Callable[[str, str, int], Machine]) -> TextDialect:
    """The machine as all blocks that look so show it; the last one counts."""
    forms = (block_form(starts, goes_on),)

    def read(text: Text) -> LogFacts:
        found = _parsed_blocks(text, forms, parse, Machine())
        machine = Machine()
        gpus: Fact[tuple[Gpu, ...]] = NOT_LOOKED
        for said in found.values():
            machine = overlaid(machine, Machine(system=said.system, cpu=said.cpu, memory=said.memory))
            gpus = said.gpus if said.gpus != NOT_LOOKED else gpus
        machine = overlaid(machine, Machine(gpus=gpus))
        return LogFacts(machine=machine, lines=sum(end - first for first, end in found), spans=tuple(found))

    return read


def _parsed_blocks(
    text: Text, forms: Sequence[Form], parse: Callable[[str, str, int], T], nothing: object
) -> dict[Span, T]:
    spans = sorted({span for form in forms for span in spans_of(text, *form)})[-_MOST_BLOCKS:]
    said = {span: parse(block_text(text, span), text.source, text.number(span[0])) for span in spans}
    return {span: each for span, each in said.items() if each != nothing}


def spans_of(text: Text, starts: re.Pattern[str], goes_on: re.Pattern[str]) -> tuple[Span, ...]:
    """Runs of lines that begin with one that `starts` finds and go on while `goes_on` finds, over a few blank lines."""
    spans: list[Span] = []
    blank = _CLOSED
    for index, line in enumerate(text.lines):
        if blank < _CLOSED and goes_on.search(line):
            spans[-1], blank = (spans[-1][0], index + 1), 0
        elif blank < _MOST_BLANK and not line.strip():
            blank += 1
        elif starts.search(line):
            spans.append((index, index + 1))
            blank = 0
        else:
            blank = _CLOSED
    return tuple(spans)


def block_text(text: Text, span: Span) -> str:
    """The lines of a span as one string."""
    return "\n".join(text.lines[span[0] : span[1]])


def facts_at_place(value: T, where: str) -> T:
    """The facts in a value, each from this place instead of from the tool that it names."""
    changed: Any = value
    match value:
        case Known():
            changed = Known(facts_at_place(value.value, where), value.origin, where)
        case Facts():
            facts = {name: facts_at_place(getattr(value, name), where) for name in value.__struct_fields__}
            changed = msgspec.structs.replace(value, **facts)
        case tuple() | list():
            changed = type(value)(facts_at_place(each, where) for each in value)
    return cast("T", changed)


class Places:
    """The text as one string, and which of its lines a character belongs to."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.joined = "\n".join(text.lines)
        self._starts = list(accumulate((len(line) + 1 for line in text.lines), initial=0))

    def find(self, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str]]:
        """Every match with the place where it starts, as `NAME:LINE`."""
        for found in pattern.finditer(self.joined):
            yield found, self.text.where(self._line(found.start()))

    def span(self, found: re.Match[str]) -> tuple[int, int]:
        """The lines that a match covers, the end left out."""
        return self._line(found.start()), self._line(max(found.start(), found.end() - 1)) + 1

    def before(self, found: re.Match[str]) -> str:
        """The part of its line that stands before a match, as much of it as matters."""
        return self.joined[max(0, found.start() - _MOST_BEFORE) : found.start()].rpartition("\n")[2]

    def _line(self, at: int) -> int:
        return max(0, bisect_right(self._starts, at) - 1)


def numbered_lines(text: str, source: str, first_line: int = 1) -> Iterator[NumberedLine]:
    """Every line; none is so long that it could keep a pattern busy."""
    for number, line in enumerate(text.split("\n"), first_line):
        yield NumberedLine(f"{source}:{number}", _ESCAPE.sub("", line[:_LONGEST_LINE]).rstrip())


class LabelledValues:
    """The last value of each label; `pattern` has the label and the value as its two groups."""

    def __init__(self, lines: Iterable[NumberedLine], pattern: re.Pattern[str]) -> None:
        found = ((line.source, pattern.search(line.text)) for line in lines)
        self.rows = {match[1]: (match[2].strip(), source) for source, match in found if match}

    def text(self, *labels: str) -> str:
        """The value of the first of these labels that is there; empty where none is."""
        return next((self.rows[label][0] for label in labels if label in self.rows), "")

    def source(self, *labels: str) -> str:
        return next((self.rows[label][1] for label in labels if label in self.rows), "")

    def word(self, *labels: str) -> Fact[Any]:
        """The value as a fact; "not looked at" where no label is there."""
        source = self.source(*labels)
        return parse_word(self.text(*labels), source) if source else NOT_LOOKED

    def amount(self, *labels: str, unit: str) -> Fact[Any]:
        """The value as a number in SI; "not looked at" where no label is there."""
        source = self.source(*labels)
        return parse_amount(self.text(*labels), unit, source) if source else NOT_LOOKED


def parse_amount(text: str, unit: str, source: str) -> Fact[Any]:
    """The first number in SI; `unit` is what it is in where the text names none that is known."""
    match = _AMOUNT.search(text)
    if text.strip().casefold() in _NOTHING or not match:
        return not_supported(f'{source} says "{text.strip()[:40]}"')
    name, written = unit.casefold(), match[2].casefold()
    if written and written in _SCALES and (written in _SIZES) == (name in _SIZES):
        name = written
    value = round(float(match[1].replace(",", ".")) * _SCALES[name], 6)
    return reported_fact(round(value) if name in _SIZES or value.is_integer() else value, source)


def listed_fact(
    key: str, value: str, source: str, amounts: Mapping[str, tuple[str, str]], words: Mapping[str, str]
) -> dict[str, Fact[Any]]:
    """The fact of a key, by tables of those that are amounts, with their units, and those that are words."""
    if key in amounts:
        name, unit = amounts[key]
        return {name: parse_amount(value, unit, source)}
    return {words[key]: parse_word(value, source)} if key in words else {}


def parse_word(text: str, source: str) -> Fact[Any]:
    """The text itself, or that the tool has none."""
    plain = text.strip()
    return not_supported(f'{source} says "{plain}"') if plain.casefold() in _NOTHING else reported_fact(plain, source)
