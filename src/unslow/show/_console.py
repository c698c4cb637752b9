"""What every report in a terminal is made of: a console that writes into a text, styles, remarks and tables.

What is shown is never taken for markup.
"""

import io
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

NARROWEST = 40
GREEN, YELLOW, RED, CYAN = "bold black on green", "bold black on yellow", "bold white on red", "bold black on cyan"
"""Of the word that a report begins with: fine, doubtful, bad, and a figure or name."""
_GAP = 2
_READABLE, _SHORTEST_NAME = 20, 10
"""Letters of a name before anything else is left out, and at the very least."""


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


def head(label: str, text: str, style: str = CYAN) -> Text:
    """The first line of an answer: a word on a coloured ground, and what it is about."""
    return Text(f" {label} ", style=style).append(f"  {text}", "bold not reverse")


def indented(text: str, style: str = "", indent: int = 2) -> Padding:
    """A text some columns in, its further lines too."""
    return Padding(Text(text, style=style), (0, 0, 0, indent))


def dim(text: str) -> Padding:
    """A remark."""
    return indented(text, "dim")


def warning(text: str) -> Padding:
    """A remark that must be seen."""
    return indented(f"! {text}", "yellow")


def hung(mark: RenderableType, *lines: RenderableType) -> Table:
    """Lines that hang beside a mark, however often they are folded."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(mark, Group(*lines))
    return grid


def item(text: str) -> Table:
    """One point of a list, its further lines below its first word."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("  ·", text)
    return grid


def pair_grid() -> Table:
    """Names on the left, what they stand for on the right, folded where it is long."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
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
    spare: int = 0
    """The higher, the sooner it goes; 0 stays."""


def table_of(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int, name: int = 0) -> Table:
    """A plain table: columns that can be spared go where there is no room, then the names are cut, never a number."""
    cells = [tuple(row) for row in rows]
    widths = [max([len(column.name), *(len(row[n]) for row in cells)]) for n, column in enumerate(columns)]
    kept = _kept(columns, widths, width, name)
    others = sum(widths[n] + _GAP for n in kept if n != name)
    table = bare_table((0, _GAP, 0, 0), pad_edge=False)
    for n in kept:
        wide = min(widths[n], max(_SHORTEST_NAME, width - others)) if n == name else widths[n]
        side: Literal["left", "right"] = "right" if columns[n].right else "left"
        table.add_column(columns[n].name, justify=side, no_wrap=True, overflow="ellipsis", width=wide)
    for row in cells:
        table.add_row(*(row[n] for n in kept))
    return table


def _kept(columns: Sequence[Column], widths: Sequence[int], width: int, name: int) -> list[int]:
    """The columns for which there is room, the names at a readable length."""
    kept = list(range(len(columns)))
    for n in sorted(kept, key=lambda n: -columns[n].spare):
        enough = min(widths[name], _READABLE) + sum(widths[k] + _GAP for k in kept if k != name)
        if enough <= width or not columns[n].spare:
            return kept
        kept.remove(n)
    return kept
