"""A call of a tool: in a thread of its own, with progress told as it comes, and ended when nobody waits any more."""

import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio
from anyio import from_thread, to_thread
from mcp.types import CallToolResult, TextContent

from unslow.commands._request import Request
from unslow.facts.errors import UserError
from unslow.look.observed import Observer, observed_by
from unslow.look.system.closing import ClosingSystem
from unslow.mcp_server.tool import Answer, Tool
from unslow.show._clean import safe

Report = Callable[[float, float | None, str | None], Any]
_LEAST_STEP = 1e-4
"""The protocol wants every progress to be more than the one before."""


class NobodyWaitsError(Exception):
    """The call was cancelled: its work ends at the next thing that it says."""


class Told(Observer):
    """Progress as notifications, and the end of what is measured when nobody waits for it."""

    def __init__(self, report: Report, cancelled: threading.Event) -> None:
        self._report, self._cancelled, self._share = report, cancelled, 0.0
        self._doors: list[ClosingSystem] = []

    def entered(self, door: ClosingSystem) -> None:
        """What is measured is seen through this door."""
        self._doors.append(door)
        if self._cancelled.is_set():
            door.stop_from_afar()

    def leave(self) -> None:
        """Nobody waits any more: a server that reads a long prompt is hung up on."""
        self._cancelled.set()
        for door in tuple(self._doors):
            door.stop_from_afar()

    def say(self, text: str) -> None:
        """A line."""
        self.step(text, self._share)

    def step(self, text: str, share: float) -> None:
        """What is being done now."""
        if self._cancelled.is_set():
            raise NobodyWaitsError
        self._share = max(share, self._share + _LEAST_STEP)
        from_thread.run(self._report, self._share, 1.0, safe(text))


async def called(
    tool: Tool, arguments: Mapping[str, Any], report: Report, one_at_a_time: anyio.CapacityLimiter
) -> CallToolResult:
    """The answer of a tool; what the agent asked wrongly is an answer too, so that it can ask again."""
    told = Told(report, threading.Event())
    try:
        work = partial(_answered, tool, tool.asked(arguments), told)
        answer = await to_thread.run_sync(work, abandon_on_cancel=True, limiter=one_at_a_time)
    except UserError as error:
        return _wrong(error.message, error.hint)
    except Exception as bug:  # noqa: BLE001 (a bug in one tool must not end the others)
        sys.stderr.write(traceback.format_exc())
        return _wrong(f"this is a bug in unslow: {type(bug).__name__}: {bug}", "the server's log has the traceback")
    finally:
        told.leave()
    return right(answer)


def _answered(tool: Tool, asked: Request, told: Told) -> Answer:
    with observed_by(told):
        return tool.answer(asked, told)


def right(answer: Answer) -> CallToolResult:
    """An answer, for a reader and for a program."""
    return CallToolResult(content=[TextContent(text=answer.text)], structured_content=answer.fields())


def _wrong(message: str, hint: str) -> CallToolResult:
    words = safe(message) + (f"\nhint: {safe(hint)}" if hint else "")
    return CallToolResult(content=[TextContent(text=words)], is_error=True)
