"""Measure what this machine really gives, in under a minute; later predictions use it.

Without TARGET the embedded engine runs made-up models of several sizes and types, and the cost of each part of a token
is learned from them. With the URL or process id of a running llama-server only the model that it has loaded is
measured: one factor, the way to calibrate a GPU. A busy server is not touched.

examples:
  unslow calibrate
  unslow calibrate --threads 8
  unslow calibrate http://127.0.0.1:8080
  unslow calibrate --list
  unslow calibrate --forget

exit status: 0 measured, listed or forgotten, 2 could not run
"""

import argparse

from unslow.facts.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    add = parser.add_argument
    add("target", nargs="?", metavar="TARGET", help="URL or process id of a running llama-server")
    add_format_arguments(parser)
    add("--list", action="store_true", help="show what is kept, and what has gone stale")
    add("--forget", nargs="?", const="", metavar="WORD", help="remove what is kept, all or what WORD names")
    add("--threads", type=int, metavar="N", help="threads of the embedded engine (default: the physical cores)")
    add("--anyway", action="store_true", help="although others are busy or a server is slow; it is noted")
    add("--evict", action="store_true", help="measure even if a chat must then read its prompt again")
    add("--api-key", metavar="KEY", help="for a server that asks for one (or UNSLOW_API_KEY)")
    add("-q", "--quiet", action="store_true", help="don't say what is being done")


def run(args: argparse.Namespace) -> int:
    """Measure, list or forget, and show."""
    from unslow.app.calibrate import Request, calibrate, forget, kept  # noqa: PLC0415 (imported when used)
    from unslow.cli._output import Progress, color, width, write  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415
    from unslow.show._calibrate import (  # noqa: PLC0415
        check_calibration_format,
        render_calibration,
        render_forgotten,
        render_kept,
    )

    check_calibration_format(args.format)
    _check_alone(args)
    if args.forget is not None:
        write(render_forgotten(forget(LiveSystem(), args.forget), args.format))
        return 0
    with Progress(quiet=args.quiet) as progress:
        if args.list:
            text = render_kept(kept(LiveSystem(), progress), args.format, width=width(), color=color())
        else:
            done = calibrate(LiveSystem(), Request.from_flags(vars(args)), progress)
            text = render_calibration(done, args.format, width=width(), color=color())
    write(text)
    return 0


def _check_alone(args: argparse.Namespace) -> None:
    """UserError where two of measuring, listing and forgetting are asked for at once."""
    asked = {"TARGET": args.target is not None, "--list": args.list, "--forget": args.forget is not None}
    if sum(asked.values()) > 1:
        given = " and ".join(name for name, is_given in asked.items() if is_given)
        raise UserError(f"{given} together make no sense", "give one of them")
