"""Compare devices: memory, bandwidth, what of a model fits, speed, price, watts.

NAME is a device of the catalogue (RTX 3090, "2x RTX 3090", "M4 Max 64GB", Strix Halo) or `here` for this machine;
without one, a handful that people ask about, and with --all every one. Without --model: what the catalogue knows.
Speeds are those of `unslow predict`, with the ends between which four of five measurements lie.

examples:
  unslow devices "RTX 3090" "RTX 4090" "2x RTX 3090" --model qwen3-32b
  unslow devices --all --model gpt-oss-120b --sort value --min-memory 24
  unslow devices "RTX 3090" "M4 Max 64GB" --model llama-3.3-70b --context 16k --price "RTX 3090=650"
  unslow devices here "RTX 5090" --model qwen3-8b --users 4 --json
  unslow devices --vendor amd --sort memory

exit status: 0 compared, 2 could not run, 3 no speed can be told of any
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._buying import add_prices, add_work  # noqa: PLC0415
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    parser.add_argument("names", nargs="*", metavar="NAME", help="a device, several of a kind (2x ...), or here")
    add_work(parser, needed=False)
    parser.add_argument("--all", action="store_true", help="every GPU and every machine with one memory")
    parser.add_argument("--vendor", metavar="NAME", help="those of a maker: nvidia, amd, apple, intel")
    parser.add_argument("--min-memory", metavar="SIZE", help="those with as much memory: 24GB")
    parser.add_argument("--sort", metavar="BY", help="speed, price, value (price per tok/s), watts, memory or name")
    add_prices(parser)
    add_format_arguments(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="don't say what is being done")


def run(args: argparse.Namespace) -> int:
    """Compare and show."""
    from unslow.app.buy import DevicesRequest, devices  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.cli._output import Progress, color, width, write  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415
    from unslow.show._buy import check_buy_format  # noqa: PLC0415
    from unslow.show._devices import render_devices  # noqa: PLC0415

    check_buy_format(args.format)
    with Progress(quiet=args.quiet) as progress:
        report = devices(LiveSystem(), DevicesRequest.from_flags(vars(args)), progress)
    write(render_devices(report, args.format, width=width(), color=color()))
    return 0 if report.asked is None or any(rig.speed for rig in report.devices) else 3
