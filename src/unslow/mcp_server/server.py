"""The server: lists the tools, calls them, over standard input and output."""

import signal
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    ToolAnnotations,
)
from mcp.types import Tool as Listed

from unslow import __version__
from unslow.mcp_server.calling import called
from unslow.mcp_server.reading import Allowed
from unslow.mcp_server.schemas import schema_of
from unslow.mcp_server.tool import Tool
from unslow.mcp_server.tools import tools_for

INSTRUCTIONS = """Says why local LLM inference is slow, proves it, and predicts what hardware should give.
Start with diagnose for a live machine, triage for pasted text, fit or predict for a model on hardware that need not \
be here, plan for the best settings. Numbers are computed from the model's tensors and the hardware's data, so prefer \
them to your memory. A flag in a hint, such as --least-speed, is the argument least_speed; --passive means \
measure=false."""
_CHANGING = ("apply", "undo")


def server_for(allowed: Allowed) -> Server[dict[str, Any]]:
    """A server with these tools."""
    tools = tools_for(allowed)
    one_at_a_time = anyio.CapacityLimiter(1)  # two measurements at once would slow each other down

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[listed(tool) for tool in tools.values()])

    async def call_tool(context: ServerRequestContext[Any], asked: CallToolRequestParams) -> CallToolResult:
        if asked.name not in tools:
            raise MCPError(INVALID_PARAMS, _unknown(asked.name))
        return await called(tools[asked.name], asked.arguments or {}, context.session.report_progress, one_at_a_time)

    return Server(
        "unslow", version=__version__, title="unslow", instructions=INSTRUCTIONS, on_list_tools=list_tools,
        on_call_tool=call_tool,
    )  # fmt: skip


def listed(tool: Tool) -> Listed:
    """A tool as the protocol lists it."""
    hints = ToolAnnotations(
        read_only_hint=not tool.changes,
        destructive_hint=tool.changes,
        idempotent_hint=not tool.changes,
        open_world_hint=False,
    )
    return Listed(
        name=tool.name, title=tool.title, description=tool.description, input_schema=schema_of(tool.request),
        annotations=hints,
    )  # fmt: skip


def _unknown(name: str) -> str:
    if name in _CHANGING:
        return f"{name} changes something, and the user does not allow that; `unslow mcp --allow-apply` does"
    return f"there is no tool {name!r}"


def serve(allowed: Allowed) -> None:
    """Answer until the client closes its end, or Ctrl-C.

    Waiting for a line can't be called off, so Ctrl-C ends the process at once. Nothing is lost by that: changes are
    journaled, and an embedded engine ends with whoever started it.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    anyio.run(_serve, server_for(allowed))


async def _serve(server: Server[dict[str, Any]]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
