"""Serve the commands as tools for coding agents (Model Context Protocol).

The agent's program starts it over standard input and output: docs/how_to/mcp.md has the configuration for common ones.
Agents can diagnose, triage, fit, predict, plan, explain, check, list models, and compare and choose devices. Nothing
is changed unless you allow it with --allow-apply; then every change is shown first, confirmed, and can be reverted.
Standard output carries only the protocol; errors go to standard error.

examples:
  claude mcp add unslow -- unslow mcp
  unslow mcp --passive                        agents may read, but send no prompt to your server
  unslow mcp --allow-apply                    agents may also apply and undo plans
  unslow mcp --allow-host gpu-box.local       agents may also query this machine
"""

import sys
from typing import Annotated

from unslow.commands._request import Option, Request
from unslow.facts.errors import UserError, hint_for_extra


class McpRequest(Request, frozen=True, kw_only=True):
    """What agents may do."""

    allow_apply: Annotated[bool, Option("let agents change settings (shown, confirmed, reverted by `undo`)")] = False
    allow_host: Annotated[tuple[str, ...], Option("another machine that agents may query", metavar="HOST")] = ()
    passive: Annotated[bool, Option("agents may not send prompts to a runtime or start one")] = False


def run(request: McpRequest) -> int:
    """Serve until the client leaves."""
    try:
        from unslow.mcp.server import serve
        from unslow.mcp.tools import Permissions
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "unslow":
            raise
        why = f"`unslow mcp` needs the package mcp, version 2 or newer: {error}"
        raise UserError(why, hint_for_extra("mcp")) from error
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write("unslow: waiting for an agent on standard input; docs/how_to/mcp.md shows the setup\n")
    serve(Permissions(measure=not request.passive, apply=request.allow_apply, hosts=frozenset(request.allow_host)))
    return 0
