"""Where the columns of a table are, whatever their order, and how its numbers are written."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from unslow.facts.errors import UserError
from unslow.think.speed.bases import DEPTH, NAMES, SIZE

_NEEDED = ("model", "hardware", "test")
_NUMBERS = (DEPTH, SIZE, "params_b", "n_gpus", "threads", "flash_attn")
_MOST_COLUMNS = 10_000

Row = list[str]


class Cells(NamedTuple):
    """The cells of some rows that are read: those of the names, and the two numbers."""

    names: list[tuple[str, ...]]
    depths: list[str]
    gibs: list[str]


class Layout:
    """The places of the columns that are read, and of those that are written."""

    def __init__(self, header: Sequence[str], places: Mapping[str, int], added: Sequence[str], decimal: str) -> None:
        self.places = places
        self.header = [*header, *(column for column in added if column not in places)]
        self.names = tuple(name for name in NAMES if name in places)
        self._kept = len(header)
        self._written = [places[column] if column in places else self.header.index(column) for column in added]
        self._is_plain = self._written == [*range(self._kept, len(self.header))]
        self._named = itemgetter(*(places[name] for name in self.names))
        self._numbers = [places[column] for column in _NUMBERS if column in places] if decimal != "." else []
        self._decimal = decimal

    def read(self, rows: Sequence[Row]) -> Cells:
        """What the rows ask; a cell that a row does not have is empty."""
        whole = [row if len(row) >= self._kept else self._filled(row) for row in rows]
        if self._numbers:
            whole = [self._with_points(row) for row in whole]
        return Cells([*map(self._named, whole)], self._column(DEPTH, whole), self._column(SIZE, whole))

    def _column(self, name: str, rows: Sequence[Row]) -> list[str]:
        place = self.places.get(name)
        return [""] * len(rows) if place is None else [row[place] for row in rows]

    def _filled(self, row: Row) -> Row:
        return [*row, *[""] * (self._kept - len(row))]

    def _with_points(self, row: Row) -> Row:
        row = list(row)
        for place in self._numbers:
            row[place] = row[place].replace(self._decimal, ".")
        return row

    def repeated(self, row: Row, added: Sequence[str]) -> Row:
        """The row with what was predicted in the columns for it; cells beyond the last column stay behind them."""
        if self._is_plain and len(row) == self._kept:
            return [*row, *added]
        cells = [*row[: self._kept], *[""] * (len(self.header) - min(len(row), self._kept)), *row[self._kept :]]
        for place, cell in zip(self._written, added, strict=True):
            cells[place] = cell
        return cells

    def numbers(self, values: Sequence[float]) -> list[str]:
        """Numbers as the table writes them, with five digits and never with an exponent; nothing for NaN."""
        texts = [f"{value:.5g}" for value in values]
        for n, text in enumerate(texts):
            if "n" in text or "e" in text:
                texts[n] = "" if "n" in text else f"{values[n]:.0f}" if values[n] > 1 else f"{values[n]:.9f}"
        return texts if self._decimal == "." else [text.replace(".", self._decimal) for text in texts]


def layout_of(header: Sequence[str], added: Sequence[str], name: str, decimal: str = ".") -> Layout:
    """The layout of a table with this first line; UserError where a needed column is missing."""
    if len(header) > _MOST_COLUMNS:
        raise UserError(f"{name} has {len(header):,} columns", "is it a table?")
    places: dict[str, int] = {}
    for place, cell in enumerate(header):
        places.setdefault(cell.strip().lower(), place)
    if missing := [column for column in _NEEDED if column not in places]:
        seen = ", ".join(repr(cell.strip()[:40]) for cell in header[:12])
        hint = f"the first line names the columns; seen were {seen or 'none'}"
        raise UserError(f"{name} has no column {', '.join(missing)}", hint)
    return Layout(header, places, added, decimal)
