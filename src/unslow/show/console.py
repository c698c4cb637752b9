"""What every report in a terminal is made of: a console, styles, tables, lines to copy, and the kinds of reports.

What is shown is never taken for markup.
"""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unslow.facts.commands import Line, Place, line_for_reader, parse_line
from unslow.facts.errors import UserError
from unslow.think.report import Report

Shown = TypeVar("Shown", bound=msgspec.Struct)

_LONGEST = 4000  # A command line that names many tensors is the longest text that has to stay whole

# control characters (but for the newline), and those that turn the direction of writing
_UNSAFE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean_report(report: Shown) -> Shown:
    """The report without characters that do more than stand there, and with long texts cut."""
    return msgspec.convert(_clean_value(msgspec.to_builtins(report)), type(report))


def safe_text(text: str) -> str:
    """The text without what could drive a terminal, and cut where it is endless."""
    text = without_controls(text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def without_controls(text: str) -> str:
    """All of the text, such as a traceback, without what could drive a terminal."""
    return _UNSAFE.sub("�", text)


def as_json(value: object) -> str:
    """A value as indented JSON that is safe to show."""
    return safe_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def safe_json(text: str) -> str:
    """The same JSON with those characters as their numbers, which mean the same: they stand only in strings."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _clean_value(value: Any) -> Any:
    match value:
        case str():
            return safe_text(value)
        case list() | tuple():
            return [_clean_value(v) for v in value]
        case dict():
            return {_clean_value(k): _clean_value(v) for k, v in value.items()}
        case _:
            return value


def render_json(report: Report, *, width: int, color: bool, everything: bool) -> str:  # noqa: ARG001 (one signature for all)
    """The whole report, indented."""
    return as_json(report)


NARROWEST = 40
GREEN, YELLOW, RED, CYAN = "bold black on green", "bold black on yellow", "bold white on red", "bold black on cyan"
"""Of the word that a report begins with: fine, doubtful, bad, and a figure or name."""
_GAP = 2
_READABLE, _SHORTEST_NAME = 20, 10  # Letters of a name before anything else is left out, and at the very least
_TICKS = re.compile("`+")
_LANGUAGES = {
    Place.SHELL: "sh", Place.POWERSHELL: "powershell", Place.CMD: "bat", Place.PYTHON: "python",
    Place.REQUEST: "json", Place.COMPOSE: "yaml", Place.MANIFEST: "yaml",
}  # fmt: skip
_WHOLE = frozenset({Place.WHOLE_MODELFILE, Place.COMPOSE, Place.MANIFEST, Place.PYTHON})
"""Places whose texts have lines of their own; in a shell a second line would be a second command."""
R = TypeVar("R")
_GOOD = frozenset({"default_is_best", "faster", "fits", "normal", "possible", "same"})
_BAD = frozenset({"answers_changed", "broken", "does_not_fit", "failed", "impossible", "slow", "slower"})
_VERDICTS = {"cannot_tell": "CANNOT TELL", "partly": "FITS PARTLY"}  # Those whose words are not their name
KINDS: dict[str, "ReportKind[Any]"] = {}  # By the name of the type that is shown


class ReportKind(Generic[R]):
    """Shows reports of one type (None: any with its fields); called with one, a format, the width, and colours or not.

    `terminal(report, width)` gives what is printed, `markdown(report)` and `openmetrics(report)` give a text; what else
    the caller passes goes to each of them. Reports are cleaned before, but for `clean=False`: that kind does it itself.
    `crop=False` is for lines to copy, which may be wider than the terminal.
    """

    def __init__(  # noqa: PLR0913 (one for each format, and what differs between kinds)
        self,
        report: type[R] | None,
        terminal: Callable[..., RenderableType | Iterable[RenderableType]],
        *,
        json: Callable[[R], str] = as_json,
        markdown: Callable[..., str] | None = None,
        openmetrics: Callable[..., str] | None = None,
        called: str = "this answer",
        clean: bool = True,
        crop: bool = True,
    ) -> None:
        self._terminal, self._json, self._called, self._clean, self._crop = terminal, json, called, clean, crop
        self._texts = {"markdown": markdown, "openmetrics": openmetrics}
        self.formats = ("terminal", "json", *(form for form, text in self._texts.items() if text))
        if report is not None:
            KINDS[report.__name__] = self

    def check_format(self, form: str) -> None:
        """UserError where there is no such format of it: better before a measurement than after it."""
        if form not in self.formats:
            raise UserError(f"{self._called} has no format {form!r}", f"available: {', '.join(self.formats)}")

    def __call__(self, report: R, form: str, *, width: int, color: bool, **options: Any) -> str:
        """The report in that format."""
        self.check_format(form)
        if form == "json":
            return self._json(report)
        shown: Any = clean_report(report) if self._clean else report  # type: ignore[type-var]
        if text := self._texts.get(form):
            return text(shown, **options)
        console = TextConsole(width=width, color=color)
        parts = self._terminal(shown, console.width, **options)
        console.print(Group(*parts) if isinstance(parts, Iterable) else parts, crop=self._crop)
        return console.text


class TextConsole(Console):
    """Prints into `text`, with colours where they are wanted."""

    def __init__(self, *, width: int, color: bool) -> None:
        super().__init__(
            file=io.StringIO(), width=max(NARROWEST, width), force_terminal=color, no_color=not color, highlight=False,
            emoji=False, markup=False,
        )  # fmt: skip

    @property
    def text(self) -> str:
        """What was printed, without blanks at the ends of lines."""
        printed = self.file.getvalue() if isinstance(self.file, io.StringIO) else ""
        return "\n".join(line.rstrip() for line in printed.splitlines())


def printed_text(part: RenderableType, *, width: int, color: bool = False) -> str:
    """What a terminal of that width shows of it."""
    console = TextConsole(width=width, color=color)
    console.print(part)
    return console.text


def head(label: str, text: str, style: str = CYAN) -> Text:
    """The first line of an answer: a word on a coloured ground, and what it is about."""
    return Text(f" {label} ", style=style).append(f"  {text}", "bold not reverse")


def verdict_head(verdict: str, text: str) -> Text:
    """The first line of an answer that begins with its verdict: green or red, and yellow where it is neither."""
    style = GREEN if verdict in _GOOD else RED if verdict in _BAD else YELLOW
    return head(_VERDICTS.get(verdict, verdict.replace("_", " ").upper()), text, style)


def indent_text(text: str, style: str = "", indent: int = 2) -> Padding:
    """A text some columns in, its further lines too."""
    return Padding(Text(text, style=style), (0, 0, 0, indent))


def dim(text: str) -> Padding:
    """A remark."""
    return indent_text(text, "dim")


def warning(text: str) -> Padding:
    """A remark that must be seen."""
    return indent_text(f"! {text}", "yellow")


def hanging_grid(mark: RenderableType, *lines: RenderableType) -> Table:
    """Lines that hang beside a mark, however often they are folded."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(mark, Group(*lines))
    return grid


def item(text: str) -> Table:
    """One point of a list, its further lines below its first word."""
    grid = mark_grid()
    grid.add_row("  ·", text)
    return grid


def mark_grid() -> Table:
    """Marks on the left, what is said on the right, folded where it is long."""
    return pair_grid(1, "")


def pair_grid(gap: int = 2, style: str = "dim") -> Table:
    """Names on the left, what they stand for on the right, folded where it is long."""
    grid = Table.grid(padding=(0, gap))
    grid.add_column(no_wrap=True, style=style)
    grid.add_column(overflow="fold")
    return grid


def bare_table(padding: tuple[int, int, int, int] = (0, 2, 0, 0), *, pad_edge: bool = True) -> Table:
    """A table without lines, whose columns are still to come."""
    return Table(box=None, padding=padding, pad_edge=pad_edge, show_edge=False, header_style="dim")


def plain_table(*columns: str) -> Table:
    """A table without lines; the first column is text, the others are numbers."""
    table = bare_table((0, 2, 0, 2), pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table


def noted_table(columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> Table:
    """A table with a remark after each row; where there is too little room the remarks are folded, not the numbers."""
    table = plain_table(*columns)
    for place, column in enumerate(table.columns):
        column.min_width = max(len(columns[place]), *(len(row[place]) for row in rows), 0)
    if any(notes):
        table.add_column("", style="dim", overflow="fold")
    for row, note in zip(rows, notes, strict=True):
        table.add_row(*row, *([note] if any(notes) else []))
    return table


class Column(NamedTuple):
    """A column of a table: its name, where it is aligned, and how soon it is left out where there is no room."""

    name: str
    right: bool = True
    spare: int = 0  # The higher, the sooner it goes; 0 stays


def table_of(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int, name: int = 0) -> Table:
    """A plain table: columns that can be spared go where there is no room, then the names are cut, never a number."""
    cells = [tuple(row) for row in rows]
    widths = [max([len(column.name), *(len(row[n]) for row in cells)]) for n, column in enumerate(columns)]
    kept = list(range(len(columns)))  # those for which there is room, the names at a readable length
    for n in sorted(kept, key=lambda n: -columns[n].spare):
        enough = min(widths[name], _READABLE) + sum(widths[k] + _GAP for k in kept if k != name)
        if enough <= width or not columns[n].spare:
            break
        kept.remove(n)
    others = sum(widths[n] + _GAP for n in kept if n != name)
    table = bare_table((0, _GAP, 0, 0), pad_edge=False)
    for n in kept:
        wide = min(widths[n], max(_SHORTEST_NAME, width - others)) if n == name else widths[n]
        side: Literal["left", "right"] = "right" if columns[n].right else "left"
        table.add_column(columns[n].name, justify=side, no_wrap=True, overflow="ellipsis", width=wide)
    for row in cells:
        table.add_row(*(row[n] for n in kept))
    return table


def command_text(text: str, indent: int = 2) -> Text:
    """A line to copy, for a terminal: never wrapped by us, and what has lines of its own starts at the left."""
    said = line_for_reader(text)
    room = "" if "\n" in said else " " * indent
    return Text(f"{room}{said}", style="cyan", no_wrap=True, overflow="ignore")


def commands(texts: Sequence[str], indent: str = "") -> Iterator[str]:
    """The lines in their order, those of one place together."""
    for place, lines in groupby(map(parse_line, texts), key=lambda line: line.place):
        if place is Place.HAND:
            yield from (indent + "- " + line.text.replace("\n", " ") for line in lines)
        elif place is Place.FLAG:
            yield f"{indent}- {', '.join(map(_flag, lines))}"
        else:
            if place is not Place.SHELL:
                yield ""
                yield f"{indent}{place.value[0].upper()}{place.value[1:]}:"
            parts = [line.text.split("\n") if place in _WHOLE else [line.text.replace("\n", " ")] for line in lines]
            block = list(chain.from_iterable(parts))
            # a fence that none of its lines can close
            fence = "`" * max(3, 1 + max(len(ticks) for line in block for ticks in _TICKS.findall(line) or [""]))
            yield f"{indent}{fence}{_LANGUAGES.get(place, 'text')}"
            yield from (f"{indent}{line}".rstrip() for line in block)
            yield f"{indent}{fence}"


def _flag(line: Line) -> str:
    """A flag as code; what to do with it stands before."""
    words, dash, flag = line.text.replace("\n", " ").partition("-")
    flag = dash + flag
    ticks = "`" * (1 + max((len(found) for found in _TICKS.findall(flag)), default=0))
    room = " " if "`" in flag else ""
    return f"{words}{ticks}{room}{flag}{room}{ticks}"
