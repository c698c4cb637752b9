"""Explain a cause: what it is, how to confirm it, how to fix it. Without a name, list them all.

examples:
  unslow explain
  unslow explain weights_spill_to_ram
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    parser.add_argument("cause", nargs="?", help="the id of a cause, such as cpu_contended")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Show one page, or the list."""
    from unslow.app.explain import page, pages  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.cli._output import color, width, write  # noqa: PLC0415
    from unslow.show._page import list_text, page_json, page_text  # noqa: PLC0415

    chosen = [page(args.cause)] if args.cause else pages()
    if args.json:
        write(page_json(chosen))
    elif args.cause:
        write(page_text(chosen[0], width=width(), color=color()))
    else:
        write(list_text(chosen, width=width()))
    return 0
