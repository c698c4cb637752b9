"""The series as a file: CSV with what Python has, Arrow with a small library that is installed on request."""

import csv
from collections.abc import Iterator
from io import StringIO
from math import isnan

from unslow.facts.errors import UserError
from unslow.look.sampler.arrow import write_arrow
from unslow.look.sampler.block import PHASES
from unslow.look.sampler.book import Book

_DIGITS = 9


def write_series(path: str, book: Book, began_at: str, started_s: float) -> None:
    """All rows, seconds since `began_at` first; UserError where the ending is another, or it can't be written."""
    try:
        if path.endswith(".csv"):
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.writelines(csv_lines(book, began_at, started_s))
        elif path.endswith(".arrow"):
            write_arrow(path, book, began_at, started_s, phase_words)
        else:
            raise UserError(f"{path}: a series is written as .csv or .arrow", "name it so")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", "choose another place for the series") from error


def csv_lines(book: Book, began_at: str, started_s: float) -> Iterator[str]:
    """A comment with the start, the names, then one line a row; an empty cell where nothing was read."""
    yield f"# start={began_at}\n"
    yield _line(["seconds", "phase", *book.columns])
    for seconds, phases, values in book.rows():
        cells = ["" if isnan(value) else f"{value:.{_DIGITS}g}" for value in values]
        yield _line([f"{seconds - started_s:.4f}", phase_words(phases), *cells])


def phase_words(bits: int) -> str:
    """The phases of a row; several where requests overlap, or where rows were thinned."""
    return "+".join(phase for phase, bit in PHASES.items() if bits & bit) or "idle"


def _line(cells: list[str]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
