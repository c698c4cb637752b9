"""Compare what tokens cost: a device of one's own, a rented one, or an API; and when owning has paid.

Say how much is used (--tokens-per-day, --hours-per-day or --utilisation) and with what (--device). Shipped rents and
API prices are dated and sourced; yours always win. All that is assumed stands below the answer with its flag.

examples:
  unslow cost --model llama-3.3-70b --tokens-per-day 200k --device "2x RTX 3090" --electricity 0.30
  unslow cost --model qwen3-32b --hours-per-day 4 --device "RTX 4090" --price "RTX 4090=1800" --rent "RTX 4090=0.4/h"
  unslow cost --model gpt-oss-120b --tokens-per-day 2m --device "Strix Halo" --api "0.1/0.5 per M" --years 4
  unslow cost --model qwen3-8b --utilisation 0.3 --device here --watts 90 --json

exit status: 0 compared, 1 no device can make as many tokens, 2 could not run
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._buying import add_prices, add_work  # noqa: PLC0415
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    add_work(parser, needed=True)
    add = parser.add_argument
    add("--device", action="append", metavar="NAME", help="to own: RTX 3090, 2x RTX 3090, here; may be repeated")
    add("--tokens-per-day", metavar="N", help="that are generated: 200000, 200k or 2m")
    add("--hours-per-day", metavar="H", help="that the first device works")
    add("--utilisation", metavar="SHARE", help="of the day that the first device works: 0.2")
    add("--prompt-ratio", metavar="N", help="prompt tokens that are read for each generated one (default: 3)")
    _add_owning(parser.add_argument_group("owning"))
    group = parser.add_argument_group("others")
    group.add_argument("--rent", action="append", metavar="NAME=AMOUNT", help='by the hour: "H100=2.5/h"')
    group.add_argument("--api", action="append", metavar="IN/OUT", help='of a million tokens: "0.5/1.5 per M"')
    add_prices(parser)
    add_format_arguments(parser)
    add("-q", "--quiet", action="store_true", help="don't say what is being done")


def _add_owning(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--electricity", metavar="AMOUNT", help="of a kWh (default: 0.30, which is assumed)")
    add("--years", metavar="N", help="that it is used (default: 3)")
    add("--resale", metavar="AMOUNT", help="what it sells for then (default: 0)")
    add("--watts", metavar="W", help="measured while it works (default: its TDP)")
    add("--power-share", metavar="SHARE", help="of the TDP that it draws while it works (default: 1)")
    add("--host-price", metavar="AMOUNT", help="of a computer around a card (default: there is one)")


def run(args: argparse.Namespace) -> int:
    """Compare and show."""
    from unslow.app.buy import CostRequest, cost  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.cli._output import Progress, color, width, write  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415
    from unslow.show._buy import check_buy_format  # noqa: PLC0415
    from unslow.show._cost import render_cost  # noqa: PLC0415

    check_buy_format(args.format)
    with Progress(quiet=args.quiet) as progress:
        report = cost(LiveSystem(), CostRequest.from_flags(vars(args)), progress)
    write(render_cost(report, args.format, width=width(), color=color()))
    owned = [way for way in report.ways if way.how == "own"]
    return 1 if owned and not any(way.enough for way in owned) else 0
