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

from unslow.facts.errors import UserError
from unslow.mcp_server.tool import Answer, Tool
from unslow.show._clean import safe

Report = Callable[[float, float | None, str | None], Any]
_LEAST_STEP = 1e-4
"""The protocol wants every progress to be more than the one before."""


class NobodyWaitsError(Exception):
    """The call was cancelled: its work ends at the next thing that it says."""


class Told:
    """Progress as notifications."""

    def __init__(self, report: Report, cancelled: threading.Event) -> None:
        self._report, self._cancelled, self._share = report, cancelled, 0.0

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
    cancelled = threading.Event()
    try:
        work = partial(tool.answer, tool.asked(arguments), Told(report, cancelled))
        answer = await to_thread.run_sync(work, abandon_on_cancel=True, limiter=one_at_a_time)
    except UserError as error:
        return _wrong(error.message, error.hint)
    except Exception as bug:  # noqa: BLE001 (a bug in one tool must not end the others)
        sys.stderr.write(traceback.format_exc())
        return _wrong(f"this is a bug in unslow: {type(bug).__name__}: {bug}", "the server's log has the traceback")
    finally:
        cancelled.set()
    return right(answer)


def right(answer: Answer) -> CallToolResult:
    """An answer, for a reader and for a program."""
    return CallToolResult(content=[TextContent(text=answer.text)], structured_content=answer.fields())


def _wrong(message: str, hint: str) -> CallToolResult:
    words = safe(message) + (f"\nhint: {safe(hint)}" if hint else "")
    return CallToolResult(content=[TextContent(text=words)], is_error=True)
