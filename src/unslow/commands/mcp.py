"""Serve the same verbs as tools for coding agents, over the Model Context Protocol on standard input and output.

It is started by the agent's program, not by hand: docs/how_to/mcp.md has the lines for the usual ones. Agents can
diagnose, triage, fit, predict, plan, explain, check, list models, and compare and choose devices. Nothing is changed
unless you allow it with --allow-apply, and then every change is shown first, confirmed, and can be taken back.
Standard output carries the protocol alone; what goes wrong is written to standard error.

examples:
  claude mcp add unslow -- unslow mcp
  unslow mcp --passive                        agents may look, and send no prompt to your server
  unslow mcp --allow-apply                    agents may also make the changes of a plan, and take them back
  unslow mcp --allow-host gpu-box.local       agents may also ask this machine
"""

import sys
from typing import Annotated

from unslow.commands._request import Option, Request
from unslow.facts.errors import UserError, hint_for_extra


class McpRequest(Request, frozen=True, kw_only=True):
    """What agents may do."""

    allow_apply: Annotated[bool, Option("agents may change settings: shown, confirmed, and undone by `undo`")] = False
    allow_host: Annotated[tuple[str, ...], Option("a further machine that may be asked", metavar="HOST")] = ()
    passive: Annotated[bool, Option("no agent may send prompts to a runtime or start one")] = False


def run(request: McpRequest) -> int:
    """Serve until the client leaves."""
    try:
        from unslow.mcp.server import serve
        from unslow.mcp.tools import Allowed
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "unslow":
            raise
        raise UserError(
            f"`unslow mcp` needs the package mcp, version 2 or newer: {error}", hint_for_extra("mcp")
        ) from error
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write("unslow: waiting for an agent on standard input; docs/how_to/mcp.md says how to set one up\n")
    serve(Allowed(measure=not request.passive, apply=request.allow_apply, hosts=frozenset(request.allow_host)))
    return 0
