"""The lines of a run as they come: one JSON object a line, until it is over or nobody listens."""

from collections.abc import AsyncIterator

import anyio
import msgspec
from starlette.responses import StreamingResponse

from unslow.web.book import BusyError, Entry
from unslow.web.desk import Desk
from unslow.web.endpoint import Question

MOST_STREAMS = 8
"""Pages that follow the same run."""
_PAUSE_S = 0.1
_QUIET_S = 15.0
"""An empty line is sent after so long, so that a connection that has died is noticed."""


def events(desk: Desk, question: Question) -> StreamingResponse:
    """The stream of a run; BusyError where too many follow it."""
    entry = desk.book.entry(question.path["run"])
    if entry.watchers >= MOST_STREAMS:
        raise BusyError("too many pages follow this run", "close some of them")
    since = int(question.flags.get("since", 0))
    return StreamingResponse(_lines(desk, entry, since), media_type="application/x-ndjson")


async def _lines(desk: Desk, entry: Entry, since: int) -> AsyncIterator[bytes]:
    entry.watchers += 1
    quiet_s = 0.0
    try:
        while True:
            over = entry.is_over or desk.closing  # asked before the lines: the last one is not missed
            new = entry.lines(since)
            for line in new:
                since = line.number
                yield msgspec.json.encode(line) + b"\n"
            if over:
                return
            quiet_s = 0.0 if new else quiet_s + _PAUSE_S
            if quiet_s >= _QUIET_S:
                quiet_s = 0.0
                yield b"\n"
            await anyio.sleep(_PAUSE_S)
    finally:
        entry.watchers -= 1
