"""Predicts every row of a table: its file, its columns, and its predictions."""

import csv
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice, product
from operator import itemgetter
from pathlib import Path
from typing import IO, TextIO

from unslow.commands._output import Progress
from unslow.facts.errors import UserError
from unslow.think.speed.tables import DEPTH, NAMES, SIZE, predict_cells

PIECE = 100_000  # Rows that are in memory at once
ADDED = ("predicted_tok_s", "predicted_low", "predicted_high", "basis", "reason")
_NUMBERS = (DEPTH, SIZE, "params_b", "n_gpus", "threads", "flash_attn")
_MOST_COLUMNS = 10_000
_HEAD = 1 << 16
_WIDE = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_PIPE = "-"
_MARK = "\ufeff"  # What Excel puts before UTF-8, and needs to see to read it as such
_DECIMAL_COMMA = re.compile(r';"?\d+,\d+"?(?:;|\r?\n|$)')
"""As Excel writes numbers where a comma stands before the decimals."""
Row = list[str]


def predict_table(source: str, target: str, progress: Progress, *, force: bool = False) -> tuple[int, int]:
    """Repeat a table with predictions: how many rows there were, and how many of them were predicted.

    UserError where it can't be read or written, or is none; then an old file of that name stays as it was.
    """
    with open_input(source) as table:
        lines = table.rows()
        header = next((row for row in lines if any(cell.strip() for cell in row)), None)
        if header is None:
            hint = "the first line must name the columns: model, hardware, test, ..."
            raise UserError(f"{table.name} is empty", hint)
        layout = Layout(header, table.name, table.decimal)
        with open_output(target, table, force=force) as file:
            writer = csv.writer(file, delimiter=table.delimiter, lineterminator=table.line_end)
            file.write(table.mark)
            writer.writerow(layout.header)
            count = predicted = 0
            while piece := list(islice(lines, PIECE)):
                rows = [row for row in piece if row]  # a line with nothing in it is no row
                found = predict_cells(layout.names, *layout.read(rows))
                speeds = (layout.numbers(column.tolist()) for column in (found.mid, found.low, found.high))
                added = zip(*speeds, found.basis, found.reasons, strict=True)
                writer.writerows(layout.extended_row(row, cells) for row, cells in zip(rows, added, strict=True))
                count, predicted = count + len(rows), predicted + found.reasons.count("")
                progress.step("predicting", table.share_read())
    progress.step(f"{predicted:,} of {count:,} rows predicted", 1.0)
    return count, predicted


class Layout:
    """The places of the columns that are read, and of those that are written."""

    def __init__(self, header: Sequence[str], name: str, decimal: str) -> None:
        """The layout of a table with this first line; UserError where a needed column is missing."""
        if len(header) > _MOST_COLUMNS:
            raise UserError(f"{name} has {len(header):,} columns", "check that it is a table")
        places: dict[str, int] = {}
        for place, cell in enumerate(header):
            places.setdefault(cell.strip().lower(), place)
        if missing := [column for column in ("model", "hardware", "test") if column not in places]:
            seen = ", ".join(repr(cell.strip()[:40]) for cell in header[:12])
            hint = f"the first line must name the columns (got {seen or 'none'})"
            raise UserError(f"{name} has no column {', '.join(missing)}", hint)
        self.places = places
        self.header = [*header, *(column for column in ADDED if column not in places)]
        self.names = tuple(name for name in NAMES if name in places)
        self._kept = len(header)
        self._written = [places[column] if column in places else self.header.index(column) for column in ADDED]
        self._is_plain = self._written == [*range(self._kept, len(self.header))]
        self._named = itemgetter(*(places[name] for name in self.names))
        self._numbers = [places[column] for column in _NUMBERS if column in places] if decimal != "." else []
        self._decimal = decimal

    def read(self, rows: Sequence[Row]) -> tuple[list[tuple[str, ...]], list[str], list[str]]:
        """The cells of the names, the depths and the sizes; a cell that a row does not have is empty."""
        whole = [row if len(row) >= self._kept else [*row, *[""] * (self._kept - len(row))] for row in rows]
        if self._numbers:
            whole = [list(row) for row in whole]
            for row, place in product(whole, self._numbers):
                row[place] = row[place].replace(self._decimal, ".")
        places = (self.places.get(name) for name in (DEPTH, SIZE))
        depths, sizes = ([""] * len(rows) if at is None else [row[at] for row in whole] for at in places)
        return [*map(self._named, whole)], depths, sizes

    def extended_row(self, row: Row, added: Sequence[str]) -> Row:
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


class Input:
    """A table that is read line by line; cells that are not UTF-8 come out as they went in."""

    def __init__(self, file: IO[bytes], name: str, size: int) -> None:
        self.name = name
        self._file, self._size, self._line, self._read = file, size, 0, 0
        self._text: io.TextIOWrapper | None = None
        head = file.peek(_HEAD) if isinstance(file, io.BufferedReader) else b""
        self.encoding = next((code for mark, code in _WIDE if head.startswith(mark)), "utf-8")
        text = head.decode(self.encoding, "replace")
        self.mark = _MARK if text.startswith(_MARK) and self.encoding == "utf-8" else ""
        text = text.lstrip(_MARK)
        first = text.split("\n", 1)[0]
        if "\0" in first:
            raise UserError(f"{name} is not text", "give a table separated by commas, semicolons or tabs")
        self.delimiter = max(",;\t|", key=first.count)
        self.line_end = "\r\n" if first.endswith("\r") else "\n"
        self.decimal = "," if self.delimiter == ";" and _DECIMAL_COMMA.search(text) else "."

    def rows(self) -> Iterator[Row]:
        """The rows; UserError where the text is not a table."""
        try:
            yield from csv.reader(self._lines(), delimiter=self.delimiter)
        except (csv.Error, UnicodeError, OSError) as error:
            hint = "check that it is a text table; an unclosed quotation mark looks like this"
            raise UserError(f"{self.name}, about line {self._line:,}: {error}", hint) from error

    def _lines(self) -> Iterator[str]:
        """The lines, without the mark that some programs put before the first."""
        errors = "surrogateescape" if self.encoding == "utf-8" else "replace"
        self._text = io.TextIOWrapper(self._file, self.encoding, errors, newline="")
        for line in self._text:
            self._line += 1
            self._read += len(line)
            yield line.lstrip(_MARK) if self._line == 1 else line

    def close(self) -> None:
        """Let go of the file, which whoever opened it closes."""
        if self._text is not None:
            self._text.detach()

    def share_read(self) -> float:
        """How much of the file was read, about; half where its size is not known."""
        width = 1 if self.encoding == "utf-8" else 2
        return min(0.99, width * self._read / self._size) if self._size else 0.5


@contextmanager
def open_input(source: str) -> Iterator[Input]:
    """A file, or standard input for `-`; UserError where there is none to read."""
    if source == _PIPE:
        if sys.stdin is None:
            raise UserError("no standard input", "give a file: --csv IN")
        with closing(Input(sys.stdin.buffer, "standard input", 0)) as table:
            yield table
        return
    path = Path(source).expanduser()
    try:
        file, size = path.open("rb"), path.stat().st_size
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"{source}: {why}", "give a table in a file, or - for standard input") from error
    with file, closing(Input(file, source, size)) as table:
        yield table


@contextmanager
def open_output(target: str, table: Input, *, force: bool) -> Iterator[TextIO]:
    """A new file, or standard output for `-`; what is there already is replaced at the end, and only where asked."""
    if target == _PIPE:
        if sys.stdout is None:
            raise UserError("no standard output", "give a file: --out OUT")
        yield from _standard_output()
        return
    path = Path(target).expanduser()
    if path.is_dir():
        raise UserError(f"{target} is a folder", "give a file: --out OUT")
    if path.exists() and path.is_file() and not force:
        raise UserError(f"{target} already exists", "--force overwrites it")
    encoding = "utf-8" if table.encoding == "utf-8" else "utf-16"
    try:
        if path.is_file() or not path.exists():
            yield from _replacement_file(path, encoding)
        else:  # a device or a pipe is written to and never replaced
            with path.open("w", encoding=encoding, errors="surrogateescape", newline="") as file:
                yield file
    except OSError as error:
        hint = "check that the folder exists and is writable"
        raise UserError(f"{target}: {error.strerror or error}", hint) from error


def _standard_output() -> Iterator[TextIO]:
    """Standard output in UTF-8, whatever the terminal's encoding; it stays open."""
    sys.stdout.flush()
    text = io.TextIOWrapper(sys.stdout.buffer, "utf-8", "surrogateescape", newline="")
    try:
        yield text
        text.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter tries again at its end
        raise UserError(f"standard output: {error.strerror}", "is the disk full?") from error
    finally:
        with suppress(OSError):
            text.detach()


def _replacement_file(path: Path, encoding: str) -> Iterator[TextIO]:
    """A file beside it that takes its name at the end."""
    handle, part = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding=encoding, errors="surrogateescape", newline="") as file:
            yield file
        if path.exists():  # as a file that is opened for writing would have it: mkstemp makes private ones
            mode = path.stat().st_mode & 0o777
        else:
            mask = os.umask(0)
            os.umask(mask)
            mode = 0o666 & ~mask
        Path(part).chmod(mode)
        os.replace(part, path)  # noqa: PTH105 (both are names here)
    finally:
        Path(part).unlink(missing_ok=True)
