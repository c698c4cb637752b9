"""What `unslow fleet` does for each of its actions."""

import argparse
from collections.abc import Callable

from unslow.facts.errors import UserError


def add_access_arguments(parser: argparse.ArgumentParser) -> None:
    """How the server is reached."""
    add = parser.add_argument
    add("--prometheus", metavar="URL", help="its address (or UNSLOW_PROMETHEUS_URL)")
    add("--username", metavar="NAME", help="for basic authentication")
    add("--password-file", metavar="FILE", help="the password for it (or UNSLOW_PROMETHEUS_PASSWORD)")
    add("--token-file", metavar="FILE", help="a bearer token (or UNSLOW_PROMETHEUS_TOKEN)")
    add("--header", action="append", metavar="LINE", help='sent with every query: "X-Scope-OrgID: team-a"; repeatable')
    add("--ca-file", metavar="FILE", help="certificates of authorities to trust, instead of the system's")
    add("--cert", metavar="FILE", help="a certificate of our own, where the server asks for one")
    add("--key", metavar="FILE", help="its key, where that is in a file of its own")
    add("--insecure", action="store_true", help="don't check the server's certificate")
    add("--timeout", metavar="SPAN", help="the most that one query may take (default: 30s)")


def add_capacity_arguments(parser: argparse.ArgumentParser) -> None:
    """What capacity is reckoned for."""
    add = parser.add_argument
    add("--goal", metavar="SPEED", help='capacity: what each user must get (default: "20 tok/s")')
    add("--first-token", metavar="SPAN", help="capacity: the longest that a user may wait for a first token")
    add("--span", metavar="SPAN", help="capacity: how far back to measure (default: 24h)")


def add_rules_arguments(parser: argparse.ArgumentParser) -> None:
    """What is written for Prometheus and Grafana."""
    add = parser.add_argument
    words = "rules: their tests for `promtool test rules` instead; `day` for those that take one"
    add("--tests", nargs="?", const="hour", choices=("hour", "day"), metavar="day", help=words)
    add("--pages", metavar="URL", help="rules, dashboard: where you serve this documentation, for links to its pages")


def performed(args: argparse.Namespace) -> int:
    """Do it, and say how it ended."""
    for name, action in _ONLY.items():
        if getattr(args, name) and args.action != action:
            flag = f"--{name.replace('_', '-')}"
            raise UserError(f"{flag} is not for `unslow fleet {args.action}`", f"`unslow fleet {action}` takes it")
    return _ACTIONS[args.action](args)


def _diagnose(args: argparse.Namespace) -> int:
    if args.save and not args.instance:
        raise UserError("--save writes the snapshot of one instance", "name it with --instance KEY")
    return _one(args) if args.instance else _all(args)


def _all(args: argparse.Namespace) -> int:
    from unslow.app.fleet.report import fleet_report  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.app.fleet.request import FleetRequest  # noqa: PLC0415
    from unslow.app.fleet.status import status_of  # noqa: PLC0415
    from unslow.cli._output import Progress, color, width  # noqa: PLC0415
    from unslow.show._fleet import check_fleet_format, render_fleet  # noqa: PLC0415

    check_fleet_format(args.format)
    if args.top < 0:
        raise UserError(f"--top {args.top} makes no sense", "give how many instances to show")
    with Progress(quiet=args.quiet) as progress:
        report = fleet_report(FleetRequest.from_flags(vars(args)), progress)
    shown = color() and not args.output
    _write(render_fleet(report, args.format, width=width(), color=shown, everything=args.all, top=args.top), args)
    return status_of(report)


def _one(args: argparse.Namespace) -> int:
    from unslow.app.fleet.one import instance_report  # noqa: PLC0415
    from unslow.app.fleet.request import FleetRequest  # noqa: PLC0415
    from unslow.cli._output import Progress, color, width  # noqa: PLC0415
    from unslow.cli.diagnose import EXIT  # noqa: PLC0415
    from unslow.show import check_format, render  # noqa: PLC0415

    check_format(args.format)
    with Progress(quiet=args.quiet) as progress:
        request = FleetRequest.from_flags(vars(args))
        report = instance_report(request, args.instance, args.save or "", progress)
    shown = color() and not args.output
    _write(render(report, args.format, width=width(), color=shown, everything=args.all), args)
    return EXIT[report.subjects[0].verdict]


def _capacity(args: argparse.Namespace) -> int:
    from unslow.app.fleet.capacity import capacity_report, goal_of, span_of  # noqa: PLC0415
    from unslow.app.fleet.request import FleetRequest  # noqa: PLC0415
    from unslow.cli._output import Progress, color, width  # noqa: PLC0415
    from unslow.show._capacity import check_capacity_format, render_capacity  # noqa: PLC0415

    check_capacity_format(args.format)
    goal, span_s = goal_of(args.goal, args.first_token), span_of(args.span)
    with Progress(quiet=args.quiet) as progress:
        report = capacity_report(FleetRequest.from_flags(vars(args)), goal, progress, span_s)
    shown = color() and not args.output
    _write(render_capacity(report, args.format, width=width(), color=shown), args)
    return 0 if any(row.users_at_goal for row in report.rows) else 3


def _queries(args: argparse.Namespace) -> int:
    from unslow.app.fleet.queries import queries_text  # noqa: PLC0415

    _write(queries_text(vars(args)), args)
    return 0


def _rules(args: argparse.Namespace) -> int:
    from unslow.show.rules import long_rule_tests_text, rule_tests_text, rules_text  # noqa: PLC0415
    from unslow.think.fleet.alert_rules import PAGES  # noqa: PLC0415

    if args.format != "terminal":
        raise UserError("rules have one format, the YAML of Prometheus", "leave --json and --format out")
    pages = args.pages or PAGES
    tests = long_rule_tests_text if args.tests == "day" else rule_tests_text
    _write(tests(pages=pages) if args.tests else rules_text(pages), args)
    return 0


def _dashboard(args: argparse.Namespace) -> int:
    from unslow.show.dashboard import SERVED, dashboard_text  # noqa: PLC0415

    _write(dashboard_text(args.pages or SERVED), args)
    return 0


def _write(text: str, args: argparse.Namespace) -> None:
    from unslow.app.save import write_whole  # noqa: PLC0415
    from unslow.cli._output import write  # noqa: PLC0415

    if not args.output or args.output == "-":
        write(text.rstrip("\n"))
    else:
        write_whole((text.rstrip("\n") + "\n").encode(), args.output)


_ONLY = {
    "goal": "capacity", "first_token": "capacity", "span": "capacity", "tests": "rules", "instance": "diagnose",
    "save": "diagnose",
}  # fmt: skip
"""Flags that one action alone takes: another would leave them out in silence."""
_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "diagnose": _diagnose,
    "capacity": _capacity,
    "queries": _queries,
    "rules": _rules,
    "dashboard": _dashboard,
}
