"""Say what to buy for a model, a budget and a speed: a card, a pair, a Mac or another machine with one memory.

With a goal the cheapest that very likely reaches it is chosen, in the finest quant that does it, down to --quant-least:
the low end of the prediction counts. Without a goal, the fastest within the budget in that quant. A device without a
known price can't be held against a budget: give it with --price.

examples:
  unslow choose --model qwen3-32b --budget 1500 --goal "20 tok/s"
  unslow choose --model gpt-oss-120b --context 32k --budget 4000 --goal 15 --host-price 800
  unslow choose --model llama-3.3-70b --budget 1000 --have "RTX 3090" --price "RTX 3090=700"
  unslow choose --model qwen3-32b --goal 15 --among apple --price "M4 Max 64GB=3500"
  unslow choose --model qwen3-8b --goal 30 --users 4 --quant-least Q6_K --json

exit status: 0 chosen, 1 nothing reaches the goal, 2 could not run
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._buying import add_prices, add_work  # noqa: PLC0415
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    add_work(parser, needed=True)
    add = parser.add_argument
    add("--budget", metavar="AMOUNT", help="what may be paid (default: anything)")
    add("--goal", metavar="SPEED", help='of each conversation, at the low end: "20 tok/s" (default: the fastest)')
    add("--quant-least", metavar="NAME", help="the coarsest quant that will do (default: Q4_K_M)")
    add("--have", metavar="DEVICE", help="what is there already, or here: alone, and with one more beside it")
    add("--among", action="append", metavar="DEVICE", help="only these, or those of a maker: apple; may be repeated")
    add("--partly", action="store_true", help="also what holds only a part of the model, the rest on the host")
    add_prices(parser)
    add("--host-price", metavar="AMOUNT", help="of a computer around new cards (default: there is one)")
    add_format_arguments(parser)
    add("-q", "--quiet", action="store_true", help="don't say what is being done")


def run(args: argparse.Namespace) -> int:
    """Choose and show."""
    from unslow.app.buy import ChooseRequest, choose  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.cli._output import Progress, color, width, write  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415
    from unslow.show._buy import check_buy_format  # noqa: PLC0415
    from unslow.show._choose import render_choose  # noqa: PLC0415

    check_buy_format(args.format)
    with Progress(quiet=args.quiet) as progress:
        report = choose(LiveSystem(), ChooseRequest.from_flags(vars(args)), progress)
    write(render_choose(report, args.format, width=width(), color=color()))
    return 0 if report.chosen else 1
