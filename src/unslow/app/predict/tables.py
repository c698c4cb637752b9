"""Predicts every row of a table: read in pieces, so that its length does not matter, and repeated with predictions."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from unslow.app.predict.layouts import Layout, Row, layout_of
from unslow.app.predict.table_files import Input, open_input, open_output
from unslow.app.progress import Progress
from unslow.facts.errors import UserError
from unslow.think.speed.many import predict_cells

PIECE = 100_000
"""Rows that are in memory at once."""
ADDED = ("predicted_tok_s", "predicted_low", "predicted_high", "basis", "reason")


class Writer(Protocol):
    """What csv.writer gives."""

    def writerows(self, rows: Iterable[Sequence[str]], /) -> None: ...


class Done(NamedTuple):
    """How many rows there were, and how many of them were predicted."""

    rows: int
    predicted: int


def predict_table(source: str, target: str, progress: Progress, *, force: bool = False) -> Done:
    """Repeat a table with predictions; UserError where it can't be read or written, or is none.

    Where it can't be finished, an old file of that name stays as it was.
    """
    with open_input(source) as table:
        reader, layout = _begun(table)
        with open_output(target, table, force=force) as file:
            writer = csv.writer(file, delimiter=table.delimiter, lineterminator=table.line_end)
            file.write(table.mark)
            writer.writerow(layout.header)
            done = Done(0, 0)
            for rows in _pieces(reader, table):
                done = _predict(rows, layout, writer, done)
                progress.step("predicting", table.share_read())
    progress.step(f"{done.predicted:,} of {done.rows:,} rows predicted", 1.0)
    return done


def _begun(table: Input) -> tuple[Iterator[Row], Layout]:
    """The rows, and where in them each column is."""
    reader = csv.reader(table.lines(), delimiter=table.delimiter)
    header = next((row for row in _checked(reader, table) if any(cell.strip() for cell in row)), None)
    if header is None:
        raise UserError(f"{table.name} is empty", "its first line names the columns: model, hardware, test, ...")
    return reader, layout_of(header, ADDED, table.name, table.decimal)


def _checked(reader: Iterator[Row], table: Input) -> Iterator[Row]:
    """The rows; UserError where the text is no table."""
    try:
        yield from reader
    except (csv.Error, UnicodeError, OSError) as error:
        hint = "is it a table of text? A quotation mark that is never closed looks like this"
        raise UserError(f"{table.name}, about line {table.line:,}: {error}", hint) from error


def _pieces(reader: Iterator[Row], table: Input) -> Iterator[list[Row]]:
    rows = _checked(reader, table)
    while piece := list(islice(rows, PIECE)):
        yield [row for row in piece if row]  # a line with nothing in it is no row


def _predict(rows: Sequence[Row], layout: Layout, writer: Writer, done: Done) -> Done:
    found = predict_cells(layout.names, *layout.read(rows))
    speeds = (layout.numbers(column.tolist()) for column in (found.mid, found.low, found.high))
    added = zip(*speeds, found.basis, found.reasons, strict=True)
    writer.writerows(layout.repeated(row, cells) for row, cells in zip(rows, added, strict=True))
    answered = found.reasons.count("")
    return Done(done.rows + len(rows), done.predicted + answered)
