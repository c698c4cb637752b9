"""Rules for Prometheus, and their tests, as the YAML that it reads."""

from itertools import groupby

from unslow.facts.yaml_text import Value, as_yaml
from unslow.think.fleet.alert_rules import PAGES, AlertRule, Group, Recording, rule_groups
from unslow.think.fleet.rule_trials import Fired, RuleTest, rule_tests

RULE_FILE = "unslow.rules.yml"
INTERVAL = "1m"
TEST_INTERVAL, LONG_INTERVAL = "2m", "30m"
"""Between two evaluations in tests: often enough for what is tried, and quick."""
_HEAD = "# Written by `unslow fleet rules{}`: change the catalogue or the cause, and write it again.\n"


def rules_text(pages: str = PAGES) -> str:
    """Recording and alert rules; `pages` is the address of the documentation that runbooks point to."""
    return _HEAD.format("") + as_yaml({"groups": [_group(group) for group in rule_groups(pages)]})


def rule_tests_text(rule_file: str = RULE_FILE, pages: str = PAGES) -> str:
    """What `promtool test rules` reads: every alert with its fault and its near misses, within an hour."""
    return _tests([test for test in rule_tests(pages) if not test.is_long], TEST_INTERVAL, rule_file)


def long_rule_tests_text(rule_file: str = RULE_FILE, pages: str = PAGES) -> str:
    """The same of what takes hours, such as a comparison with yesterday."""
    return _tests([test for test in rule_tests(pages) if test.is_long], LONG_INTERVAL, rule_file)


def _group(group: Group) -> Value:
    return {"name": group.name, "interval": INTERVAL, "rules": [_rule(rule) for rule in group.rules]}


def _rule(rule: Recording | AlertRule) -> Value:
    if isinstance(rule, Recording):
        labels: dict[str, Value] = {"labels": rule.labels} if rule.labels else {}
        return {"record": rule.record, "expr": rule.expr, **labels}
    told = {"labels": rule.labels, "annotations": rule.annotations}
    return {"alert": rule.alert, "expr": rule.expr, "for": rule.hold, **told}


def _tests(tests: list[RuleTest], interval: str, rule_file: str) -> str:
    fleet: Value = {
        "interval": "1m",
        "input_series": [_series(test, name) for test in tests for name in test.series],
        "promql_expr_test": [_firing(test, at) for test in tests for at in test.at],
        "alert_rule_test": _said(tests),
    }
    whole: Value = {
        "rule_files": [rule_file],
        "evaluation_interval": interval,
        "group_eval_order": [group.name for group in rule_groups()],
        "tests": [fleet],
    }
    return _HEAD.format(" --tests") + _listed(tests) + as_yaml(whole)


def _listed(tests: list[RuleTest]) -> str:
    """What each cluster is there for, as promtool has no place for a name."""
    rows = (f"#   {t.cluster}: {'fires' if t.fired else 'must not fire'}: {t.name}\n" for t in tests)
    return "# Every cluster is one case:\n" + "".join(rows)


def _series(test: RuleTest, name: str) -> Value:
    return {"series": name, "values": test.series[name]}


def _firing(test: RuleTest, at: str) -> Value:
    """Everything that fires in a cluster, whatever its name: an alert for another fault would be a wrong one."""
    without = f', alertname!~"{"|".join(test.beside)}"' if test.beside else ""
    expected: list[Value] = [{"labels": _fired_series(one), "value": 1} for one in test.fired]
    expr = f'ALERTS{{alertstate="firing", cluster="{test.cluster}"{without}}}'
    return {"expr": expr, "eval_time": at, "exp_samples": expected}


def _fired_series(one: Fired) -> str:
    labels = {"alertname": one.alert, "alertstate": "firing"} | one.labels
    return "ALERTS{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def _said(tests: list[RuleTest]) -> list[Value]:
    """What each alert says in words: promtool wants all of one name at once."""
    beside = {name for test in tests for name in test.beside}
    fired = sorted((one.alert, test.at[-1], number) for number, (test, one) in enumerate(_fired(tests)))
    every = [one for _, one in _fired(tests)]
    return [
        {"eval_time": at, "alertname": alert, "exp_alerts": [_worded(every[number]) for *_, number in alike]}
        for (alert, at), alike in groupby(fired, lambda key: key[:2])
        if alert not in beside
    ]


def _fired(tests: list[RuleTest]) -> list[tuple[RuleTest, Fired]]:
    return [(test, one) for test in tests for one in test.fired]


def _worded(one: Fired) -> Value:
    return {"exp_labels": one.labels, "exp_annotations": one.annotations}
