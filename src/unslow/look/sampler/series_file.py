"""The series as a file: CSV with what Python has, Arrow with a small library that is installed on request."""

import csv
from importlib.util import find_spec
from itertools import islice
from math import isnan
from typing import Any

from unslow.facts.errors import UserError, hint_for_extra
from unslow.look.sampler.rows import PHASE_BITS, SampledRows

BATCH_ROWS = 4096
_HINT = f"{hint_for_extra('arrow')}; or write the series as .csv"

_DIGITS = 9


def write_series(path: str, book: SampledRows, began_at: str, started_s: float) -> None:
    """All rows, seconds since `began_at` first; UserError where the ending is another, or it cannot be written."""
    try:
        if path.endswith(".csv"):  # a comment with the start, the names, then one line a row, with empty cells
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(f"# start={began_at}\n")
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(["seconds", "phase", *book.columns])
                for seconds, phases, values in book.rows():
                    cells = ["" if isnan(value) else f"{value:.{_DIGITS}g}" for value in values]
                    writer.writerow([f"{seconds - started_s:.4f}", phase_words(phases), *cells])
        elif path.endswith(".arrow"):
            write_arrow(path, book, began_at, started_s)
        else:
            raise UserError(f"{path}: a series is written as .csv or .arrow", "use one of these file endings")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", "choose another place for the series") from error


def write_arrow(path: str, book: SampledRows, began_at: str, started_s: float) -> None:
    """All rows; the moment of the start stands in the schema's metadata, and missing values are null."""
    try:
        import nanoarrow  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 (an extra that few need)
        from nanoarrow.ipc import StreamWriter  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
    except ImportError as error:
        raise _needs_nanoarrow(path) from error
    number, text = nanoarrow.float64(), nanoarrow.string()
    fields = {"seconds": number, "phase": text, **dict.fromkeys(book.columns, number)}
    schema = nanoarrow.c_schema(nanoarrow.struct(fields, nullable=False)).modify(metadata={"start": began_at})
    rows = book.rows()
    with open(path, "wb") as file, StreamWriter.from_writable(file) as writer:
        batch = list(islice(rows, BATCH_ROWS))
        while True:
            columns: list[list[Any]] = [[row[0] - started_s for row in batch], [phase_words(row[1]) for row in batch]]
            for place in range(len(book.columns)):
                values = (row[2][place] for row in batch)
                columns.append([None if isnan(value) else value for value in values])
            children = [nanoarrow.c_array(column, kind) for column, kind in zip(columns, fields.values(), strict=True)]
            writer.write_stream(nanoarrow.c_array_from_buffers(schema, len(batch), buffers=[None], children=children))
            batch = list(islice(rows, BATCH_ROWS))
            if not batch:
                return


def phase_words(bits: int) -> str:
    """The phases of a row; several where requests overlap, or where rows were thinned."""
    return "+".join(phase for phase, bit in PHASE_BITS.items() if bits & bit) or "idle"


def check_arrow(path: str) -> None:
    """UserError where the library is missing: better told before an hour is measured."""
    if find_spec("nanoarrow") is None:
        raise _needs_nanoarrow(path)


def _needs_nanoarrow(path: str) -> UserError:
    return UserError(f"{path}: Arrow files need the Python package nanoarrow", _HINT)
