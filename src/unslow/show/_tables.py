"""Tables without lines, and faint remarks: what every page of figures is made of."""

from rich.padding import Padding
from rich.table import Table
from rich.text import Text


def plain_table(*columns: str) -> Table:
    """A table without lines; the first column is text, the others are numbers."""
    table = Table(box=None, padding=(0, 2, 0, 2), pad_edge=False, header_style="dim")
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table


def dim(text: str) -> Padding:
    """A remark in the second row."""
    return Padding(Text(text, style="dim"), (0, 0, 0, 2))
