"""Writes a snapshot: masked, and whole or not at all."""

import os
import sys
from pathlib import Path

from unslow.app.progress import Progress
from unslow.facts.errors import UserError
from unslow.facts.masking import masked
from unslow.facts.snapshot import Snapshot, dump_snapshot


def save(snapshot: Snapshot, output: str, progress: Progress) -> None:
    """Write it to a file, or to standard output for `-`; UserError where that can't be written."""
    text = dump_snapshot(masked(snapshot)) + b"\n"
    if output == "-":
        sys.stdout.buffer.write(text)
        return
    path = Path(os.path.realpath(output))  # a link stays a link
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(text)  # a device or a pipe is written to, never replaced
        else:
            part = path.with_name(f".{path.name}.part")
            part.write_bytes(text)
            part.replace(path)
    except OSError as error:
        raise UserError(f"{output}: {error.strerror or error}", "name a file that can be written") from error
    progress.say(f"wrote {output}")
