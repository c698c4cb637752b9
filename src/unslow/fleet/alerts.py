"""The alert rules that a Prometheus evaluates, from the catalogue and the causes, and their tests, as YAML."""

import importlib
import re
from functools import cache
from itertools import groupby
from typing import NamedTuple

from unslow.catalog.prometheus import (
    Alert,
    AlertTrial,
    Condition,
    alerts,
    exporters_of,
    recording_expression,
    recordings,
)
from unslow.facts.commands import Value, as_yaml
from unslow.think.causes import all_causes, cause_ids

PAGES = "docs/"  # Where the documentation is, unless somebody names its address: beside the rules, in the repository
RULE_FILE = "unslow.rules.yml"
INTERVAL = "1m"
TEST_INTERVAL, LONG_INTERVAL = "2m", "30m"
"""Between two evaluations in tests: often enough for what is tried, and quick."""
LONG_MIN = 60  # Trials that look further ahead, in minutes, are evaluated in larger steps
LONGEST = 700  # Of one annotation, in characters: what a phone shows without scrolling for long
_HEAD = "# Written by `unslow fleet rules{}`: change the catalogue or the cause, and write it again.\n"
_WORDS = {
    "place": "cluster, namespace, pod, job, instance",
    "gpu": "cluster, job, instance, gpu, UUID, uuid, gpu_id, gpu_partition_id, GPU_I_ID",
}
"""Labels that tell one target, and one GPU, whoever exports them; one that is nowhere is the same everywhere."""
_OPEN = re.compile(r"\$\{(\w+)(?:\.(\w+))?\}")
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_ITEM = re.compile(r"\n- ")
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"\$\{(\w+)\}")
_LABEL = re.compile(r'(?<!\w)(\w+)="([^"]*)"')
_WITH = re.compile(r"\{\{ with \$labels\.(\w+) \}\}(.{0,400}?)\{\{ end \}\}")
_OR = re.compile(r"\{\{ or ((?:\$labels\.\w+ )+)\}\}")
_ONE = re.compile(r"\{\{ \$labels\.(\w+) \}\}")
_VALUE = re.compile(r"\{\{ \$value[^}]*\}\}")


class Recording(NamedTuple):
    """A series that is computed ahead."""

    record: str
    expr: str
    labels: dict[str, str]


class AlertRule(NamedTuple):
    """An alert; `id` is the file of the catalogue that it comes from."""

    id: str
    alert: str
    expr: str
    hold: str
    labels: dict[str, str]
    annotations: dict[str, str]


class Group(NamedTuple):
    """Rules that are evaluated one after the other."""

    name: str
    rules: tuple[Recording | AlertRule, ...]


class Fired(NamedTuple):
    """An alert that must fire, with all its labels; the annotations only where their value is known."""

    alert: str
    labels: dict[str, str]
    annotations: dict[str, str]


class RuleTest(NamedTuple):
    """Series of one cluster, and what fires there at each moment: all of it, but for alerts named in `beside`."""

    cluster: str
    name: str
    series: dict[str, str]
    at: tuple[str, ...]
    fired: tuple[Fired, ...]
    beside: tuple[str, ...]

    @property
    def is_long(self) -> bool:
        """Whether it takes hours."""
        return any(int(at.removesuffix("m")) > LONG_MIN for at in self.at)


class Texts(NamedTuple):
    """What is wrong in a few words, in a sentence, why that is slow, and what to do; a last cause may not say why."""

    title: str
    what: str
    why: str
    to_do: str


def rules_text(pages: str = PAGES) -> str:
    """Recording and alert rules; `pages` is the address of the documentation that runbooks point to."""
    groups = [(group.name, [_rule(rule) for rule in group.rules]) for group in rule_groups(pages)]
    return _HEAD.format("") + as_yaml({
        "groups": [{"name": name, "interval": INTERVAL, "rules": rules} for name, rules in groups]
    })  # fmt: skip


def _rule(rule: Recording | AlertRule) -> Value:
    if isinstance(rule, Recording):
        labels: dict[str, Value] = {"labels": rule.labels} if rule.labels else {}
        return {"record": rule.record, "expr": rule.expr, **labels}
    told = {"labels": rule.labels, "annotations": rule.annotations}
    return {"alert": rule.alert, "expr": rule.expr, "for": rule.hold, **told}


def rule_groups(pages: str = PAGES) -> tuple[Group, ...]:
    """All of them: what is computed ahead, in its order, then the alerts."""
    groups = []
    for name, group in recordings().items():
        ways = [(rule.record, way) for rule in group.rules for way in rule.ways]
        rules = (Recording(record, filled(recording_expression(group, way)), way.labels) for record, way in ways)
        groups.append(Group(f"unslow_{name}", tuple(rules)))
    seen: list[AlertRule] = []
    found: list[AlertRule] = []
    for name, alert in alerts().items():
        about = [c for c in cause_ids() if c not in alert.left_out] if alert.every_cause else [alert.cause]
        heap = found if alert.every_cause else seen
        heap += [_alert_rule(name, alert, cause, condition, pages) for cause in about for condition in alert.conditions]
    return (*groups, Group("unslow_alerts", tuple(seen)), Group("unslow_findings", tuple(found)))


def _alert_rule(name: str, alert: Alert, cause: str, condition: Condition, pages: str) -> AlertRule:
    said = texts_of(cause) if cause else None
    title, what, to_do = (said.title, said.what, said.to_do) if said else (alert.title, alert.text, alert.to_do)
    why = f" {said.why}" if said else ""
    told = {"cause": cause, "seen_by": condition.seen_by, "severity": alert.severity_of.get(cause, alert.severity)}
    return AlertRule(
        id=name,
        alert=alert_name(name, alert, cause),
        expr=filled(condition.expr.strip(), cause=cause),
        hold=condition.hold or alert.hold,
        labels={label: value for label, value in told.items() if value},
        annotations={
            "summary": f"{title}: {alert.where}",
            "description": f"{what} {alert.value}{why}",
            "what_to_do": to_do,
            "runbook_url": page_link(pages, f"reference/causes/{cause}" if cause else f"how_to/alerts#{name}"),
        },
    )


def alert_name(name: str, alert: Alert, cause: str) -> str:
    """Such as UnslowGpuThermalThrottling: by the cause where it is one for each."""
    return "Unslow" + "".join(word.capitalize() for word in (cause if alert.every_cause else name).split("_"))


def page_link(pages: str, page: str) -> str:
    """The address of a page: Markdown in a folder, HTML where the site is served."""
    path, _, anchor = page.partition("#")
    ending = "html" if "://" in pages else "md"
    return f"{pages.rstrip('/')}/{path}.{ending}" + (f"#{anchor}" if anchor else "")


def filled(expr: str, **words: str) -> str:
    """An expression with the numbers of causes and the lists of labels in it."""
    known = _WORDS | _labels_of_engines() | words
    return _OPEN.sub(lambda m: number_of(m[1], m[2]) if m[2] else known[m[1]], expr)


@cache
def _labels_of_engines() -> dict[str, str]:
    """By `sglang_own` and `sglang_same`, the labels of an engine beside the model, as the fleet knows them."""
    found: dict[str, str] = {}
    for name, one in exporters_of("engine").items():
        found[f"{name}_own"] = ", ".join(label for label in one.own if label not in one.labels.get("model", ()))
        found[f"{name}_same"] = ", ".join(one.same)
    return found


def number_of(cause: str, name: str) -> str:
    """A threshold of a cause as PromQL writes it."""
    value = getattr(importlib.import_module(f"unslow.think.causes.{cause}"), name)
    return str(int(value)) if value == int(value) else repr(float(value))


def texts_of(cause: str) -> Texts:
    """The words of one cause, from its title and its docstring."""
    head, *rest = _HEADING.split(importlib.import_module(f"unslow.think.causes.{cause}").__doc__ or "")
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    why = next((text for name, text in sections.items() if name.startswith("Why")), "").strip().split("\n\n")[0]
    return Texts(all_causes()[cause].title, _line(head), _line(why), _line(sections.get("How to fix", "")))


def _line(text: str) -> str:
    """One line without anything that a template would read, cut after a whole item or sentence."""
    joined = _SPACE.sub(" ", _ITEM.sub("; ", text.strip().removeprefix("- "))).replace(":; ", ": ")
    plain = joined.replace("{{", "{").replace("}}", "}").strip()
    if len(plain) <= LONGEST:
        return plain
    whole = max(plain.rfind(end, 0, LONGEST) for end in (". ", "; "))
    return plain[: whole + 1].rstrip(";") + " …"


def not_alerted() -> dict[str, str]:
    """Causes that no alert tells of, with the reason."""
    return {cause: why for alert in alerts().values() for cause, why in alert.left_out.items()}


def rule_tests_text(pages: str = PAGES) -> str:
    """What `promtool test rules` reads: every alert with its fault and its near misses, within an hour."""
    return _tests([test for test in rule_tests(pages) if not test.is_long], TEST_INTERVAL)


def long_rule_tests_text(pages: str = PAGES) -> str:
    """The same of what takes hours, such as a comparison with yesterday."""
    return _tests([test for test in rule_tests(pages) if test.is_long], LONG_INTERVAL)


def _tests(tests: list[RuleTest], interval: str) -> str:
    beside = {name for test in tests for name in test.beside}
    every = [(one.alert, test.at[-1], one) for test in tests for one in test.fired]
    every.sort(key=lambda fired: fired[:2])
    fleet: Value = {
        "interval": "1m",
        "input_series": [{"series": name, "values": test.series[name]} for test in tests for name in test.series],
        "promql_expr_test": [_firing(test, at) for test in tests for at in test.at],
        "alert_rule_test": [
            {
                "eval_time": at,
                "alertname": alert,
                "exp_alerts": [{"exp_labels": one.labels, "exp_annotations": one.annotations} for *_, one in alike],
            }
            for (alert, at), alike in groupby(every, lambda fired: fired[:2])
            if alert not in beside
        ],
    }
    whole: Value = {
        "rule_files": [RULE_FILE],
        "evaluation_interval": interval,
        "group_eval_order": [group.name for group in rule_groups()],
        "tests": [fleet],
    }
    # What each cluster is there for, as promtool has no place for a name
    rows = (f"#   {t.cluster}: {'fires' if t.fired else 'must not fire'}: {t.name}\n" for t in tests)
    return _HEAD.format(" --tests") + ("# Every cluster is one case:\n" + "".join(rows)) + as_yaml(whole)


def _firing(test: RuleTest, at: str) -> Value:
    """Everything that fires in a cluster, whatever its name: an alert for another fault would be a wrong one."""
    without = f', alertname!~"{"|".join(test.beside)}"' if test.beside else ""
    expected: list[Value] = []
    for one in test.fired:
        labels = {"alertname": one.alert, "alertstate": "firing"} | one.labels
        series = "ALERTS{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
        expected.append({"labels": series, "value": 1})
    expr = f'ALERTS{{alertstate="firing", cluster="{test.cluster}"{without}}}'
    return {"expr": expr, "eval_time": at, "exp_samples": expected}


def rule_tests(pages: str = PAGES) -> tuple[RuleTest, ...]:
    """Every trial of every alert.

    All of them are one fleet, each in a cluster of its own: so it shows too that none is seen in the place of another.
    """
    rules = [rule for group in rule_groups(pages) for rule in group.rules if isinstance(rule, AlertRule)]
    return tuple(
        _test(f"{name}-{number}", name, trial, rules)
        for name, alert in alerts().items()
        for number, trial in enumerate(alert.trials, 1)
    )


def _test(cluster: str, name: str, trial: AlertTrial, rules: list[AlertRule]) -> RuleTest:
    alert = alerts()[name]
    called = alert_name(name, alert, trial.cause)
    mine = [rule for rule in rules if rule.id == name and rule.alert == called]
    placed = {_filled(key, alert).replace("{", f'{{cluster="{cluster}", ', 1): v for key, v in trial.series.items()}
    fired = []
    for told in trial.fires:  # by the condition that the trial names, or the first
        rule = next(r for r in mine if not trial.seen_by or r.labels.get("seen_by") == trial.seen_by)
        labels = {"cluster": cluster} | dict(_LABEL.findall(_filled(told, alert))) | rule.labels
        texts = {name: rendered(text, labels, trial.says) for name, text in rule.annotations.items()}
        fired.append(Fired(rule.alert, labels, texts if trial.says else {}))
    beside = tuple(alert_name(other, alerts()[other], "") for other in trial.beside)
    return RuleTest(cluster, trial.name, placed, trial.at, tuple(fired), beside)


def _filled(text: str, alert: Alert) -> str:
    return _WORD.sub(lambda m: alert.words[m[1]], text)


def rendered(template: str, labels: dict[str, str], value: str) -> str:
    """A template as Prometheus fills it: the few forms that the catalogue uses."""
    text = _WITH.sub(lambda m: m[2].replace("{{ . }}", labels[m[1]]) if labels.get(m[1]) else "", template)
    text = _OR.sub(lambda m: next(filter(None, (labels.get(n[8:], "") for n in m[1].split())), ""), text)
    return _VALUE.sub(value, _ONE.sub(lambda m: labels.get(m[1], ""), text))
