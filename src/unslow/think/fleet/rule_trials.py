"""Cases in which an alert must fire and near misses in which none may, for `promtool test rules`.

All of them are one fleet, each in a cluster of its own: so it shows too that none is seen in the place of another.
"""

import re
from typing import NamedTuple

from unslow.catalog.alerts import Alert, Trial, alerts
from unslow.think.fleet.alert_rules import PAGES, AlertRule, alert_name, rule_groups

LONG_MIN = 60
"""Trials that look further ahead, in minutes, are evaluated in larger steps."""
_WORD = re.compile(r"\$\{(\w+)\}")
_LABEL = re.compile(r'(?<!\w)(\w+)="([^"]*)"')
_WITH = re.compile(r"\{\{ with \$labels\.(\w+) \}\}(.{0,400}?)\{\{ end \}\}")
_OR = re.compile(r"\{\{ or ((?:\$labels\.\w+ )+)\}\}")
_ONE = re.compile(r"\{\{ \$labels\.(\w+) \}\}")
_VALUE = re.compile(r"\{\{ \$value[^}]*\}\}")


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


def rule_tests(pages: str = PAGES) -> tuple[RuleTest, ...]:
    """Every trial of every alert."""
    rules = [rule for group in rule_groups(pages) for rule in group.rules if isinstance(rule, AlertRule)]
    return tuple(
        _test(f"{name}-{number}", name, trial, rules)
        for name, alert in alerts().items()
        for number, trial in enumerate(alert.trials, 1)
    )


def _test(cluster: str, name: str, trial: Trial, rules: list[AlertRule]) -> RuleTest:
    alert = alerts()[name]
    called = alert_name(name, alert, trial.cause)
    mine = [rule for rule in rules if rule.id == name and rule.alert == called]
    placed = {_worded(key, alert).replace("{", f'{{cluster="{cluster}", ', 1): v for key, v in trial.series.items()}
    told = [{"cluster": cluster} | dict(_LABEL.findall(_worded(labels, alert))) for labels in trial.fires]
    beside = tuple(alert_name(other, alerts()[other], "") for other in trial.beside)
    return RuleTest(cluster, trial.name, placed, trial.at, tuple(_fired(t, trial, mine) for t in told), beside)


def _worded(text: str, alert: Alert) -> str:
    return _WORD.sub(lambda m: alert.words[m[1]], text)


def _fired(own: dict[str, str], trial: Trial, mine: list[AlertRule]) -> Fired:
    """By the condition that the trial names, or the first."""
    rule = next(r for r in mine if not trial.seen_by or r.labels.get("seen_by") == trial.seen_by)
    labels = own | rule.labels
    texts = {name: rendered(text, labels, trial.says) for name, text in rule.annotations.items()}
    return Fired(rule.alert, labels, texts if trial.says else {})


def rendered(template: str, labels: dict[str, str], value: str) -> str:
    """A template as Prometheus fills it: the few forms that the catalogue uses."""
    text = _WITH.sub(lambda m: m[2].replace("{{ . }}", labels[m[1]]) if labels.get(m[1]) else "", template)
    text = _OR.sub(lambda m: next(filter(None, (labels.get(n[8:], "") for n in m[1].split())), ""), text)
    return _VALUE.sub(value, _ONE.sub(lambda m: labels.get(m[1], ""), text))
