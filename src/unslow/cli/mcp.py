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

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    add = parser.add_argument
    add("--allow-apply", action="store_true", help="agents may change settings: shown, confirmed, and undone by `undo`")
    add("--allow-host", action="append", default=[], metavar="HOST", help="a further machine that may be asked")
    add("--passive", action="store_true", help="no agent may send prompts to a runtime or start one")


def run(args: argparse.Namespace) -> int:
    """Serve until the client leaves."""
    import sys  # noqa: PLC0415 (imported when used: --help stays quick)

    from unslow.facts.errors import UserError, hint_for_extra  # noqa: PLC0415

    try:
        from unslow.mcp_server.reading import Allowed  # noqa: PLC0415
        from unslow.mcp_server.server import serve  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "unslow":
            raise
        raise UserError(
            f"`unslow mcp` needs the package mcp, version 2 or newer: {error}", hint_for_extra("mcp")
        ) from error
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write("unslow: waiting for an agent on standard input; docs/how_to/mcp.md says how to set one up\n")
    serve(Allowed(measure=not args.passive, apply=args.allow_apply, hosts=frozenset(args.allow_host)))
    return 0
