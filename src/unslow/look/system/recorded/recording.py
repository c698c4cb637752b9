"""The file of a recording: its lines, and how a stream is packed into one."""

import base64
import binascii
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from unslow.facts.errors import UserError
from unslow.facts.values import Absence
from unslow.look.system.door import ExchangeError, ExchangeFailure, LookError

T = TypeVar("T")

INDEX = "recording.jsonl"
CLOCK = "clock"
"""The question of what time it is; all others have a word for their kind before them."""
LARGEST_RECORDING_BYTES = 256 * 1024**2
LARGEST_STREAM_BYTES = 64 * 1024**2


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer of the world, or why there was none."""

    question: str
    answer: Any = None
    error: str = ""
    absence: Absence = Absence.FAILED
    kind: ExchangeFailure | None = None
    """How an exchange with a server failed."""
    again: bool = False
    """Whether the answer is the one before."""

    def failure(self) -> LookError:
        """The error as it was raised."""
        if self.kind:
            return ExchangeError(self.kind, self.error, self.absence)
        return LookError(self.error, self.absence)


def is_recording(folder: Path) -> bool:
    """Whether `unslow collect --record` wrote this folder."""
    return (folder / INDEX).is_file()


def entries(path: Path) -> Iterator[Entry]:
    """Every line of the file; UserError where one is none."""
    if path.stat().st_size > LARGEST_RECORDING_BYTES:
        raise UserError(f"{path} is larger than {LARGEST_RECORDING_BYTES >> 20} MiB", "record again with less log")
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield msgspec.json.decode(line, type=Entry)
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
                raise UserError(f"{path}, line {number}: {error}", "was the recording cut short?") from error


def fitted(kind: type[T], value: Any) -> T:
    """The value as `kind`; a recording edited by hand can hold anything."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise LookError(f"the recording does not fit: {error}") from error


def packed(lines: list[tuple[float, str]]) -> Any:
    """The lines of a stream: hundreds of them that differ in a word each."""
    return base64.b64encode(zlib.compress(msgspec.json.encode(lines), 9)).decode() if lines else []


def unpacked(answer: Any) -> list[tuple[float, str]]:
    """The lines again, also those of a recording that has them as they are."""
    if not isinstance(answer, str):
        return fitted(list[tuple[float, str]], answer or [])
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(base64.b64decode(answer, validate=True), LARGEST_STREAM_BYTES)
        return msgspec.json.decode(text, type=list[tuple[float, str]])
    except (binascii.Error, zlib.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LookError(f"the recording does not fit: {error}") from error
