"""The server: lists the tools and calls them in threads of their own, over standard input and output."""

import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio import from_thread, to_thread
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from unslow import __version__
from unslow.facts.errors import UserError
from unslow.look.observer import Observer, observed_by
from unslow.look.system.live import ClosingSystem
from unslow.mcp.tools import Answer, Permissions, Tool, schema_of, tools_for
from unslow.show.console import safe_text

INSTRUCTIONS = """Says why local LLM inference is slow, proves it, and predicts what hardware should give.
Start with diagnose for a live machine, triage for pasted text, fit or predict for a model on hardware that need not \
be here, plan for the best settings. Numbers are computed from the model's tensors and the hardware's data, so prefer \
them to your memory. A flag in a hint, such as --least-speed, is the argument least_speed; --passive means \
measure=false."""
_CHANGING = ("apply", "undo")
Report = Callable[[float, float | None, str | None], Any]
_LEAST_STEP = 1e-4  # The protocol wants every progress to be more than the one before


def serve(allowed: Permissions) -> None:
    """Answer until the client closes its end, or Ctrl-C.

    Waiting for a line can't be called off, so Ctrl-C ends the process at once. Nothing is lost by that: changes are
    journaled, and an embedded engine ends with whoever started it.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server = server_for(allowed)

    async def run() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)


def server_for(allowed: Permissions) -> Server[dict[str, Any]]:
    """A server with these tools."""
    tools = tools_for(allowed)
    one_at_a_time = anyio.CapacityLimiter(1)  # two measurements at once would slow each other down

    async def list_tools(_: ServerRequestContext[Any], __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[listed_tools(tool) for tool in tools.values()])

    async def call_tool(context: ServerRequestContext[Any], asked: types.CallToolRequestParams) -> types.CallToolResult:
        if asked.name in _CHANGING and asked.name not in tools:
            why = "makes changes, which the user has not allowed (`unslow mcp --allow-apply`)"
            raise MCPError(types.INVALID_PARAMS, f"{asked.name} {why}")
        if asked.name not in tools:
            raise MCPError(types.INVALID_PARAMS, f"unknown tool {asked.name!r}")
        return await run_tool(tools[asked.name], asked.arguments or {}, context.session.report_progress, one_at_a_time)

    return Server(
        "unslow", version=__version__, title="unslow", instructions=INSTRUCTIONS, on_list_tools=list_tools,
        on_call_tool=call_tool,
    )  # fmt: skip


def listed_tools(tool: Tool) -> types.Tool:
    """A tool as the protocol lists it."""
    reads = not tool.changes
    hints = types.ToolAnnotations(
        read_only_hint=reads, destructive_hint=tool.changes, idempotent_hint=reads, open_world_hint=False
    )
    return types.Tool(
        name=tool.name, title=tool.title, description=tool.description, input_schema=schema_of(tool.request),
        annotations=hints,
    )  # fmt: skip


async def run_tool(
    tool: Tool, arguments: Mapping[str, Any], report: Report, one_at_a_time: anyio.CapacityLimiter
) -> types.CallToolResult:
    """The answer of a tool; what the agent asked wrongly is an answer too, so that it can ask again."""
    told = ProgressNotifier(report)
    try:
        asked = tool.read_request(arguments)

        def work() -> Answer:
            with observed_by(told):
                return tool.answer(asked, told)

        answer = await to_thread.run_sync(work, abandon_on_cancel=True, limiter=one_at_a_time)
    except UserError as error:
        return _failure(error.message, error.hint)
    except Exception as bug:  # noqa: BLE001 (a bug in one tool must not end the others)
        sys.stderr.write(traceback.format_exc())
        return _failure(f"this is a bug in unslow: {type(bug).__name__}: {bug}", "the traceback is in the server's log")
    finally:
        told.leave()
    return types.CallToolResult(content=[types.TextContent(text=answer.text)], structured_content=answer.fields())


def _failure(message: str, hint: str) -> types.CallToolResult:
    words = safe_text(message) + (f"\nhint: {safe_text(hint)}" if hint else "")
    return types.CallToolResult(content=[types.TextContent(text=words)], is_error=True)


class NobodyWaitsError(Exception):
    """The call was cancelled: its work ends at the next thing that it says."""


class ProgressNotifier(Observer):
    """Progress as notifications, and the end of what is measured when nobody waits for it."""

    def __init__(self, report: Report) -> None:
        self._report, self._cancelled, self._share = report, threading.Event(), 0.0
        self._doors: list[ClosingSystem] = []

    def on_system(self, door: ClosingSystem) -> None:
        """What is measured is seen through this door."""
        self._doors.append(door)
        if self._cancelled.is_set():
            door.stop_from_afar()

    def leave(self) -> None:
        """The client waits no longer: a server that reads a long prompt is hung up on."""
        self._cancelled.set()
        for door in tuple(self._doors):
            door.stop_from_afar()

    def say(self, text: str) -> None:
        self.step(text, self._share)

    def step(self, text: str, share: float) -> None:
        if self._cancelled.is_set():
            raise NobodyWaitsError
        self._share = max(share, self._share + _LEAST_STEP)
        from_thread.run(self._report, self._share, 1.0, safe_text(text))
