"""Diagnose every instance that a Prometheus server scrapes.

It queries only the address that you give: vLLM, llama.cpp, SGLang, TGI and Ollama by their own metrics, joined with
those of GPU exporters (NVIDIA's DCGM and others, AMD's), of the node exporter and of Kubernetes. The number of queries
is the same for ten instances and for ten thousand; Thanos, Mimir and VictoriaMetrics work too. Where metrics show too
little, run `unslow exporter` on the machine.

actions:
  diagnose    what each instance loses and why, and which are slower than their peers (the default)
  capacity    how many users the fleet can serve at a goal, and what the next GPU adds
  queries     print every query; sends none
  rules       recording and alert rules for Prometheus, generated from the causes; sends no query
  dashboard   a dashboard for Grafana; sends no query

Secrets are read from files or from the environment (UNSLOW_PROMETHEUS_PASSWORD, UNSLOW_PROMETHEUS_TOKEN), because
others can see command lines.

examples:
  unslow fleet --prometheus http://127.0.0.1:9090
  unslow fleet --prometheus https://mimir.example/prometheus --header "X-Scope-OrgID: team-a" --token-file token
  unslow fleet --window 1h --match 'cluster="a"' --top 20
  unslow fleet --instance gpu-12:8000 --save gpu-12.json     one in full; replay: `unslow diagnose gpu-12.json`
  unslow fleet --format markdown -o fleet.md
  unslow fleet capacity --goal "30 tok/s" --first-token 2s
  unslow fleet rules -o unslow.rules.yml      then --tests -o unslow.tests.yml; promtool test rules unslow.tests.yml
  unslow fleet dashboard -o unslow.json       for Grafana: Dashboards, New, Import

exit status: 0 nothing is slow, 1 something was found, 2 could not run, 3 cannot tell
"""

from typing import TYPE_CHECKING, Annotated, Literal

from unslow.commands._formats import EXIT
from unslow.commands._output import Progress
from unslow.commands._request import PATH, Option, Request, function_of
from unslow.facts.errors import UserError

if TYPE_CHECKING:
    from unslow.fleet.capacity.report import CapacityReport
    from unslow.fleet.report import FleetReport

Action = Literal["diagnose", "capacity", "queries", "rules", "dashboard"]
_OF_CAPACITY, _OF_DIAGNOSES = ("goal", "first_token", "span"), ("window", "compare", "workers")
_ONLY = dict.fromkeys(_OF_CAPACITY, "capacity") | {"tests": "rules", "instance": "diagnose", "save": "diagnose"}
"""Options that one action alone takes: another would leave them out in silence."""


class FleetRequest(Request, frozen=True, kw_only=True):
    """Which Prometheus to query, the time range and series, and what to do with them."""

    action: Annotated[Action, Option("see above", metavar="ACTION", positional=True, only="cli")] = "diagnose"
    prometheus: Annotated[str | None, Option("address of Prometheus (or UNSLOW_PROMETHEUS_URL)", metavar="URL")] = None
    username: Annotated[str, Option("user for basic authentication", metavar="NAME")] = ""
    password_file: Annotated[
        str, Option("password for it (or UNSLOW_PROMETHEUS_PASSWORD)", metavar="FILE", kind=PATH)
    ] = ""
    token_file: Annotated[str, Option("bearer token (or UNSLOW_PROMETHEUS_TOKEN)", metavar="FILE", kind=PATH)] = ""
    header: Annotated[
        tuple[str, ...], Option('sent with every query: "X-Scope-OrgID: team-a"; repeatable', metavar="LINE")
    ] = ()
    ca_file: Annotated[str, Option("CA certificates to trust instead of the system's", metavar="FILE", kind=PATH)] = ""
    cert: Annotated[str, Option("client certificate", metavar="FILE", kind=PATH)] = ""
    key: Annotated[str, Option("key of the client certificate, if in its own file", metavar="FILE", kind=PATH)] = ""
    insecure: Annotated[bool, Option("do not verify the server's certificate")] = False
    timeout: Annotated[str, Option("timeout of one query (default: 30s)", metavar="SPAN")] = "30s"
    window: Annotated[str, Option("time range to diagnose, up to now (default: 15m)", metavar="SPAN")] = "15m"
    compare: Annotated[str, Option("age of the baseline to compare with, or none (default: 1d)", metavar="SPAN")] = "1d"
    match: Annotated[
        str, Option("""only series with these labels: 'cluster="a",env=~"prod.*"'""", metavar="LABELS")
    ] = ""
    engines: Annotated[
        str, Option("""the same for the engines' series only: 'namespace="llm"'""", metavar="LABELS")
    ] = ""
    join: Annotated[
        str, Option("labels to join on, if the default ones do not match: host=machine", metavar="PAIRS")
    ] = ""
    instance: Annotated[str | None, Option("full diagnosis of one instance, by its key", metavar="KEY", only="cli")] = (
        None
    )
    save: Annotated[
        str | None, Option("with --instance: also write its snapshot (masked)", metavar="FILE", only="cli")
    ] = None
    top: Annotated[int, Option("number of instances to show (default: 10)", metavar="N", least=0, only="cli")] = 10
    all: Annotated[bool, Option("show everything", only="cli")] = False
    workers: Annotated[
        int | None, Option("worker processes (default: one per CPU)", metavar="N", least=1, most=256)
    ] = None
    goal: Annotated[str | None, Option('capacity: minimum speed per user (default: "20 tok/s")', metavar="SPEED")] = (
        None
    )
    first_token: Annotated[str | None, Option("capacity: maximum time to first token", metavar="SPAN")] = None
    span: Annotated[str | None, Option("capacity: how far back to measure (default: 24h)", metavar="SPAN")] = None
    tests: Annotated[
        Literal["hour", "day"] | None,
        Option("rules: write tests for `promtool test rules` instead; `day`: those that span a day", metavar="day",
               bare="hour", only="cli"),
    ] = None  # fmt: skip
    pages: Annotated[
        str | None,
        Option("rules, dashboard: URL of this documentation, for links", metavar="URL",
               only="cli"),
    ] = None  # fmt: skip
    format: Annotated[
        str,
        Option("terminal (default), json, markdown or openmetrics", metavar="FORMAT", only="cli",
               short=("--json", "json")),
    ] = "terminal"  # fmt: skip
    output: Annotated[str | None, Option("write to a file, atomically", "-o", metavar="FILE", only="cli")] = None
    exit_zero: Annotated[bool, Option("exit 0 even with findings, for jobs that only report", only="cli")] = False
    quiet: Annotated[bool, Option("do not print progress", "-q", only="cli")] = False


def _judge_fleet(request: FleetRequest, progress: Progress) -> "FleetReport":
    """What each instance that a Prometheus knows loses, to what, and which are slower than their peers.

    Only the address that is given is asked, and as often for ten instances as for ten thousand. Where an answer was
    not whole, `complete` is False and `statements` say what is missing.
    """
    from unslow.fleet.actions import fleet_report
    from unslow.fleet.settings import FleetSettings

    return fleet_report(FleetSettings.of(request), progress)


def _users(request: FleetRequest, progress: Progress) -> "CapacityReport":
    """How many users a fleet can serve at a goal, and what the next GPU buys.

    What was measured and what is simulated beyond it are told apart by `basis`.
    """
    from unslow.fleet.capacity.users import capacity_report, goal_of, span_of
    from unslow.fleet.settings import FleetSettings

    goal, span_s = goal_of(request.goal, request.first_token), span_of(request.span)
    return capacity_report(FleetSettings.of(request), goal, progress, span_s)


def run(request: FleetRequest) -> int:
    """Ask, judge and show."""
    for name, action in _ONLY.items():
        if getattr(request, name) and request.action != action:
            flag = f"--{name.replace('_', '-')}"
            raise UserError(f"{flag} is not for `unslow fleet {request.action}`", f"`unslow fleet {action}` takes it")
    act = {"diagnose": _diagnose, "capacity": _capacity}.get(request.action, _without_a_query)
    status = act(request)
    return 0 if request.exit_zero else status


def _diagnose(request: FleetRequest) -> int:
    from unslow.commands._output import ProgressBar, color, width
    from unslow.fleet.actions import fleet_exit_status, instance_report
    from unslow.fleet.settings import FleetSettings
    from unslow.fleet.show import render_fleet

    shown = color() and not request.output
    if request.save and not request.instance:
        raise UserError("--save writes the snapshot of one instance", "name it with --instance KEY")
    if request.instance:
        from unslow.commands._formats import check_format, render

        check_format(request.format)
        with ProgressBar(quiet=request.quiet) as progress:
            one = instance_report(FleetSettings.of(request), request.instance, request.save or "", progress)
        _write(render(one, request.format, width=width(), color=shown, everything=request.all), request)
        return EXIT[one.subjects[0].verdict]
    render_fleet.check_format(request.format)
    with ProgressBar(quiet=request.quiet) as progress:
        report = _judge_fleet(request, progress)
    text = render_fleet(report, request.format, width=width(), color=shown, everything=request.all, top=request.top)
    _write(text, request)
    return fleet_exit_status(report)


def _capacity(request: FleetRequest) -> int:
    from unslow.commands._output import ProgressBar, color, width
    from unslow.fleet.capacity.report import render_capacity

    render_capacity.check_format(request.format)
    with ProgressBar(quiet=request.quiet) as progress:
        report = _users(request, progress)
    shown = color() and not request.output
    _write(render_capacity(report, request.format, width=width(), color=shown), request)
    return 0 if any(row.users_at_goal for row in report.rows) else 3


def _without_a_query(request: FleetRequest) -> int:
    """The queries themselves, the dashboard, or the rules and their tests."""
    if request.action == "queries":
        from unslow.fleet.actions import queries_text

        text = queries_text(request)
    elif request.action == "dashboard":
        from unslow.fleet.dashboard import SERVED, dashboard_text

        text = dashboard_text(request.pages or SERVED)
    else:
        from unslow.fleet.alerts import PAGES, rule_tests_text, rules_text

        if request.format != "terminal":
            raise UserError("rules have one format: Prometheus YAML", "omit --json and --format")
        pages = request.pages or PAGES
        text = rule_tests_text(pages, long=request.tests == "day") if request.tests else rules_text(pages)
    _write(text, request)
    return 0


def _write(text: str, request: FleetRequest) -> None:
    from unslow.commands._output import write
    from unslow.commands.diagnose.target import write_whole

    if not request.output or request.output == "-":
        write(text.rstrip("\n"))
    else:
        write_whole((text.rstrip("\n") + "\n").encode(), request.output)


diagnose_fleet = function_of(
    FleetRequest, _judge_fleet, name="diagnose_fleet", first="prometheus", without=_OF_CAPACITY
)
fleet_capacity = function_of(FleetRequest, _users, name="fleet_capacity", first="prometheus", without=_OF_DIAGNOSES)
