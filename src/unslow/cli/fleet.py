"""Diagnose every instance that a Prometheus server knows, with the same causes as one machine.

It asks the address that you give, and nothing else: vLLM, llama.cpp, SGLang, TGI and Ollama by their own metrics,
joined with those of GPU exporters (NVIDIA's DCGM and others, AMD's), of the node exporter and of Kubernetes. The
number of queries is the same for ten instances and for ten thousand; Thanos, Mimir and VictoriaMetrics answer them
too. Where metrics tell too little, `unslow exporter` on a machine says what it sees there.

actions:
  diagnose    what each instance loses, to what, and which are slower than their peers (the default)
  capacity    how many users the fleet can serve at a goal, and what the next GPU buys
  queries     every query that is asked, to read or to try; asks nothing
  rules       recording and alert rules for Prometheus, generated from the causes; asks nothing
  dashboard   a dashboard for Grafana; asks nothing

Secrets are read from files or from the environment (UNSLOW_PROMETHEUS_PASSWORD, UNSLOW_PROMETHEUS_TOKEN), since others
can see command lines.

examples:
  unslow fleet --prometheus http://127.0.0.1:9090
  unslow fleet --prometheus https://mimir.example/prometheus --header "X-Scope-OrgID: team-a" --token-file token
  unslow fleet --window 1h --match 'cluster="a"' --top 20
  unslow fleet --instance gpu-12:8000 --save gpu-12.json     one in full; `unslow diagnose gpu-12.json` again
  unslow fleet --format markdown -o fleet.md
  unslow fleet capacity --goal "30 tok/s" --first-token 2s
  unslow fleet rules -o unslow.rules.yml      then --tests -o unslow.tests.yml; promtool test rules unslow.tests.yml
  unslow fleet dashboard -o unslow.json       for Grafana: Dashboards, New, Import

exit status: 0 nothing is slow, 1 something was found, 2 could not run, 3 nothing could be told
"""

import argparse

ACTIONS = ("diagnose", "capacity", "queries", "rules", "dashboard")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._fleet import add_access_arguments, add_capacity_arguments, add_rules_arguments  # noqa: PLC0415

    add = parser.add_argument
    add("action", nargs="?", choices=ACTIONS, default="diagnose", metavar="ACTION", help="what to do; see above")
    add_access_arguments(parser)
    add("--window", metavar="SPAN", help="the time that is judged, until now (default: 15m)")
    add("--compare", metavar="SPAN", help="how long ago it is compared with, or none (default: 1d)")
    add("--match", metavar="LABELS", help="""only series with these labels: 'cluster="a",env=~"prod.*"'""")
    add("--engines", metavar="LABELS", help="""the same of the engines' series alone: 'namespace="llm"'""")
    add("--join", metavar="PAIRS", help="labels that belong together, where the usual ones don't: host=machine")
    add("--instance", metavar="KEY", help="the whole diagnosis of one instance, by its key")
    add("--save", metavar="FILE", help="with --instance: also write its snapshot, masked")
    add("--top", type=int, default=10, metavar="N", help="instances that are shown (default: 10)")
    add("--all", action="store_true", help="show everything")
    add("--workers", type=int, metavar="N", help="processes that judge (default: one for each processor)")
    add_capacity_arguments(parser)
    add_rules_arguments(parser)
    add("--json", dest="format", action="store_const", const="json", default="terminal", help="same as --format json")
    add("--format", default="terminal", metavar="FORMAT", help="terminal (default), json, markdown or openmetrics")
    add("-o", "--output", metavar="FILE", help="write it to a file, whole or not at all")
    add("--exit-zero", action="store_true", help="exit 0 whatever was found, for jobs that only report")
    add("-q", "--quiet", action="store_true", help="don't say what is being done")


def run(args: argparse.Namespace) -> int:
    """Ask, judge and show."""
    from unslow.cli._fleet import performed  # noqa: PLC0415 (imported when used: --help stays quick)

    status = performed(args)
    return 0 if args.exit_zero else status
