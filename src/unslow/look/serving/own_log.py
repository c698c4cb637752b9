"""The log of a running server: where its output goes, read at its two ends where it is long."""

from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Unknown, not_found, reported
from unslow.look.logs.dialect import LineDialect
from unslow.look.logs.stream import LogStream, blocks
from unslow.look.processes import Process
from unslow.look.system import LookError, unknown

HEAD_BYTES = 4 * 1024**2
TAIL_BYTES = 2 * 1024**2


def read_own_log(process: Process, dialect: LineDialect, how_to_get: str) -> tuple[Fact[str], Subject]:
    """The log that the process writes, and what it tells; the reason where none can be read."""
    why: Unknown = not_found("the server writes to no file", how_to_get)
    for path in process.outputs():
        for root in process.roots():
            try:
                return reported(path, f"/proc/{process.pid}/fd"), _read(process, root + path, path, dialect)
            except LookError as error:
                why = unknown(error, how_to_get)
    return why, Subject()


def _read(process: Process, path: str, shown: str, dialect: LineDialect) -> Subject:
    """The start of the log and its end: what lies between is work that repeats."""
    name = shown.rpartition("/")[2]
    head = process.system.read_head(path, HEAD_BYTES)
    stream = LogStream({"log": dialect}, name)
    for block in blocks([head]):
        stream.feed(block)
    if len(head) == HEAD_BYTES:
        stream.source, stream.newlines = f"the end of {name}", 0
        for block in blocks([process.system.read_tail(path, TAIL_BYTES)]):
            stream.feed(block)
    return stream.readers["log"].seen(name).subject
