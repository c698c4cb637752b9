"""The text that a user names: a file of any size or standard input, in chunks."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from unslow.app.progress import Progress
from unslow.facts.errors import UserError

CHUNK_BYTES = 1 << 20
_HINT = "name a log or a report as a text file, or - for standard input"


class TextSource(NamedTuple):
    """Chunks of bytes, what to call them in sources of facts, and their size where it is known."""

    chunks: Iterator[bytes]
    name: str
    total_bytes: int

    def follow(self, progress: Progress) -> Callable[[int], None]:
        """Tells a progress bar how far reading is."""
        total = max(1, self.total_bytes)
        return lambda done: progress.step(f"reading {self.name}", min(1.0, done / total) if self.total_bytes else 0.5)


@contextmanager
def read_text_source(word: str) -> Iterator[TextSource]:
    """The text at a path, or standard input for `-`; UserError where there is none."""
    if word == "-":
        if sys.stdin is None:
            raise UserError("there is no standard input", _HINT)
        yield TextSource(_chunks(sys.stdin.buffer), "paste", 0)
        return
    try:
        with open(word, "rb") as file:
            kind = os.fstat(file.fileno())
            size = kind.st_size if stat.S_ISREG(kind.st_mode) else 0
            yield TextSource(_chunks(file), _name(word), size)
    except IsADirectoryError as error:
        raise UserError(f"{word} is a folder", "a recorded machine is read by `unslow diagnose FOLDER`") from error
    except OSError as error:
        raise UserError(f"{word}: {error.strerror or error}", _HINT) from error


def _name(path: str) -> str:
    """What a file is called in sources of facts: printable, whatever bytes its name is made of."""
    name = os.path.basename(path) or path  # noqa: PTH119 (a name, no file)
    return "".join(c if c.isprintable() else "?" for c in name)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk
