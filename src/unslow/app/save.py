"""Writes files whole or not at all; a snapshot is masked."""

import os
import sys
from pathlib import Path

from unslow.app.progress import Progress
from unslow.facts.errors import UserError
from unslow.facts.masking import masked
from unslow.facts.snapshot import Snapshot, dump_snapshot


def save(snapshot: Snapshot, output: str, progress: Progress) -> None:
    """Write it to a file, or to standard output for `-`; UserError where that can't be written."""
    write_whole(dump_snapshot(masked(snapshot)) + b"\n", output)
    if output != "-":
        progress.say(f"wrote {output}")


def write_whole(data: bytes, output: str) -> None:
    """Whole or not at all: whoever opens the file meanwhile sees the one before; `-` is standard output."""
    if output == "-":
        sys.stdout.buffer.write(data)
        return
    path = Path(os.path.realpath(output))  # a link stays a link
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # a device or a pipe is written to, never replaced
        else:
            part = path.with_name(f".{path.name}.part")
            part.write_bytes(data)
            part.replace(path)
    except OSError as error:
        raise UserError(f"{output}: {error.strerror or error}", "name a file that can be written") from error
