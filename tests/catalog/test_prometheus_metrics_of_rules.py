"""Rules and dashboard use only metrics of a catalogued exporter or recorded ones."""

import inspect
import json
import re

from unslow.catalog.prometheus import exporters, recordings
from unslow.fleet import openmetrics
from unslow.fleet.alerts import rule_groups, rule_tests
from unslow.fleet.dashboard import dashboard_text

_QUOTED = re.compile(r'"[^"]*"')
_LABELS = re.compile(r"\b(?:by|on|without|ignoring|group_left) \([^)]*\)|\{[^}]*\}|\[[^\]]*\]")
_NAME = re.compile(r"\b(?:DCGM_|nvidia_smi_|gpu_|vllm:|sglang:|llamacpp:|tgi_|node_|kube_|container_|unslow[_:])[\w:]+")
NOT_ASKED_BY_THE_FLEET = {"kube_pod_container_info"}
"""Spelled by `fleet` itself, as its labels are what it wants."""
OWN = re.compile(r'"(unslow_\w+)"')


def names(expr: str) -> set[str]:
    """The metrics that an expression reads."""
    return set(_NAME.findall(_LABELS.sub("", _QUOTED.sub("", expr))))


KNOWN = (
    {name for one in exporters().values() for text in (one.anchor, one.info, one.counter) for name in names(text)}
    | {name for one in exporters().values() for ways in one.readings.values() for way in ways for name in names(way)}
    | {rule.record for group in recordings().values() for rule in group.rules}
    | {name for module in (openmetrics, openmetrics) for name in OWN.findall(inspect.getsource(module))}
    | NOT_ASKED_BY_THE_FLEET
)
RULES = [rule for group in rule_groups().values() for rule in group]


def test_metric_names_are_extracted_from_expressions():
    assert names('rate(vllm:a_total{x="gpu_b"}[5m]) / on (gpu_id) unslow:c:d') == {"vllm:a_total", "unslow:c:d"}


def test_rules_use_only_known_metrics():
    unknown = {name for rule in RULES for name in names(rule.expr)} - KNOWN
    assert not unknown


def test_the_dashboard_uses_only_known_metrics():
    board = json.loads(dashboard_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert asked
    assert not {name for expr in asked for name in names(expr)} - KNOWN


def test_rule_tests_feed_only_metrics_that_rules_use():
    read = {name for rule in RULES for name in names(rule.expr)} | {"up"}
    fed = {series.partition("{")[0] for test in rule_tests() for series in test.series}
    assert fed
    assert fed <= read
