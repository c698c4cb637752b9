"""Opens tables: whatever their encoding and separator, from a file or a pipe, and written whole or not at all."""

import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, TextIO

from unslow.facts.errors import UserError

_SEPARATORS = ",;\t|"
_HEAD = 1 << 16
_WIDE = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_PIPE = "-"
_MARK = "\ufeff"
"""What Excel puts before UTF-8, and needs to see to read it as such."""
_DECIMAL_COMMA = re.compile(r';"?\d+,\d+"?(?:;|\r?\n|$)')
"""As Excel writes numbers where a comma stands before the decimals."""


class Input:
    """A table that is read line by line; cells that are not UTF-8 come out as they went in."""

    def __init__(self, file: IO[bytes], name: str, size: int) -> None:
        self.name, self.line = name, 0
        self._file, self._size, self._read = file, size, 0
        self._text: io.TextIOWrapper | None = None
        head = file.peek(_HEAD) if isinstance(file, io.BufferedReader) else b""
        self.encoding = next((code for mark, code in _WIDE if head.startswith(mark)), "utf-8")
        text = head.decode(self.encoding, "replace")
        self.mark = _MARK if text.startswith(_MARK) and self.encoding == "utf-8" else ""
        text = text.lstrip(_MARK)
        first = text.split("\n", 1)[0]
        if "\0" in first:
            raise UserError(f"{name} is no text", "give a table with commas, semicolons or tabs between its cells")
        self.delimiter = max(_SEPARATORS, key=first.count)
        self.line_end = "\r\n" if first.endswith("\r") else "\n"
        self.decimal = "," if self.delimiter == ";" and _DECIMAL_COMMA.search(text) else "."

    def lines(self) -> Iterator[str]:
        """The lines, without the mark that some programs put before the first."""
        errors = "surrogateescape" if self.encoding == "utf-8" else "replace"
        self._text = io.TextIOWrapper(self._file, self.encoding, errors, newline="")
        for line in self._text:
            self.line += 1
            self._read += len(line)
            yield line.lstrip(_MARK) if self.line == 1 else line

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
            raise UserError("there is no standard input", "give a file: --csv IN")
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
            raise UserError("there is no standard output", "give a file: --out OUT")
        yield from _piped()
        return
    path = Path(target).expanduser()
    if path.is_dir():
        raise UserError(f"{target} is a folder", "give a file: --out OUT")
    if path.exists() and path.is_file() and not force:
        raise UserError(f"{target} is there already", "--force overwrites it")
    encoding = "utf-8" if table.encoding == "utf-8" else "utf-16"
    try:
        yield from _replaced(path, encoding) if path.is_file() or not path.exists() else _written(path, encoding)
    except OSError as error:
        raise UserError(
            f"{target}: {error.strerror or error}", "is the folder there, and can it be written to?"
        ) from error


def _piped() -> Iterator[TextIO]:
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


def _written(path: Path, encoding: str) -> Iterator[TextIO]:
    """A device or a pipe, which is written to and never replaced."""
    with path.open("w", encoding=encoding, errors="surrogateescape", newline="") as file:
        yield file


def _replaced(path: Path, encoding: str) -> Iterator[TextIO]:
    """A file beside it that takes its name at the end."""
    handle, part = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding=encoding, errors="surrogateescape", newline="") as file:
            yield file
        Path(part).chmod(_usual_mode(path))
        os.replace(part, path)  # noqa: PTH105 (both are names here)
    finally:
        Path(part).unlink(missing_ok=True)


def _usual_mode(path: Path) -> int:
    """As a file that is opened for writing would have it: mkstemp makes private ones."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
