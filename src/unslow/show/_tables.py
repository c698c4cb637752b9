"""Tables without lines, and faint remarks: what every page of figures is made of."""

from collections.abc import Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text


def plain_table(*columns: str) -> Table:
    """A table without lines; the first column is text, the others are numbers."""
    table = Table(box=None, padding=(0, 2, 0, 2), pad_edge=False, header_style="dim")
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table


def pair_grid() -> Table:
    """Names on the left, what they stand for on the right, folded where it is long."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    return grid


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


def dim(text: str) -> Padding:
    """A remark in the second row."""
    return Padding(Text(text, style="dim"), (0, 0, 0, 2))
