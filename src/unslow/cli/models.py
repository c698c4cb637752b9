"""List the models on this machine: in Ollama, LM Studio, the Hugging Face cache, llama.cpp's cache, and in WHERE.

Only headers are read, so that a terabyte takes a moment. A broken model is listed with the reason.

examples:
  unslow models
  unslow models /mnt/models ~/downloads/model.gguf
  unslow models --json
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    parser.add_argument("where", nargs="*", metavar="WHERE", help="further folders or files to look at")
    add_format_arguments(parser)
    parser.add_argument(
        "--all", action="store_true", help="also older revisions, files that are no models, paths, and where was looked"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="don't say what is being done")


def run(args: argparse.Namespace) -> int:
    """List and show."""
    from unslow.app.models import list_models  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.cli._output import Progress, color, width, write  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415
    from unslow.show._models import check_models_format, render_models  # noqa: PLC0415

    check_models_format(args.format)
    with Progress(quiet=args.quiet) as progress:
        inventory = list_models(LiveSystem(), args.where, progress)
    write(render_models(inventory, args.format, width=width(), color=color(), everything=args.all))
    return 0
