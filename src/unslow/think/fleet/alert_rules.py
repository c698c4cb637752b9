"""The rules that a Prometheus evaluates, put together from the catalogue and from the causes."""

import re
from functools import cache
from typing import NamedTuple

from unslow.catalog.alerts import Alert, Condition, alerts
from unslow.catalog.exporters import exporters_of
from unslow.catalog.recordings import expression, recordings
from unslow.think.causes import cause_ids
from unslow.think.fleet.alert_texts import number_of, texts_of

PAGES = "docs/"
"""Where the documentation is, unless somebody names its address: beside the rules, in the repository."""
_WORDS = {
    "place": "cluster, namespace, pod, job, instance",
    "gpu": "cluster, job, instance, gpu, UUID, uuid, gpu_id, gpu_partition_id, GPU_I_ID",
}
"""Labels that tell one target, and one GPU, whoever exports them; one that is nowhere is the same everywhere."""
_OPEN = re.compile(r"\$\{(\w+)(?:\.(\w+))?\}")


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


def rule_groups(pages: str = PAGES) -> tuple[Group, ...]:
    """All of them: what is computed ahead, in its order, then the alerts."""
    kept = [Group(f"unslow_{name}", _recorded(name)) for name in recordings()]
    seen = [rule for name, alert in alerts().items() if not alert.every_cause for rule in _rules(name, alert, pages)]
    found = [rule for name, alert in alerts().items() if alert.every_cause for rule in _rules(name, alert, pages)]
    return (*kept, Group("unslow_alerts", tuple(seen)), Group("unslow_findings", tuple(found)))


def _recorded(name: str) -> tuple[Recording, ...]:
    group = recordings()[name]
    ways = [(rule.record, way) for rule in group.rules for way in rule.ways]
    return tuple(Recording(record, filled(expression(group, way)), way.labels) for record, way in ways)


def _rules(name: str, alert: Alert, pages: str) -> list[AlertRule]:
    about = [c for c in cause_ids() if c not in alert.left_out] if alert.every_cause else [alert.cause]
    return [_rule(name, alert, cause, condition, pages) for cause in about for condition in alert.conditions]


def _rule(name: str, alert: Alert, cause: str, condition: Condition, pages: str) -> AlertRule:
    return AlertRule(
        id=name,
        alert=alert_name(name, alert, cause),
        expr=filled(condition.expr.strip(), cause=cause),
        hold=condition.hold or alert.hold,
        labels=alert_labels(alert, cause, condition),
        annotations=_annotations(name, alert, cause, pages),
    )


def alert_name(name: str, alert: Alert, cause: str) -> str:
    """Such as UnslowGpuThermalThrottling: by the cause where it is one for each."""
    return "Unslow" + "".join(word.capitalize() for word in (cause if alert.every_cause else name).split("_"))


def alert_labels(alert: Alert, cause: str, condition: Condition) -> dict[str, str]:
    """What every alert has beside the labels of its series."""
    told = {"cause": cause, "seen_by": condition.seen_by, "severity": alert.severity_of.get(cause, alert.severity)}
    return {label: value for label, value in told.items() if value}


def _annotations(name: str, alert: Alert, cause: str, pages: str) -> dict[str, str]:
    said = texts_of(cause) if cause else None
    title, what, to_do = (said.title, said.what, said.to_do) if said else (alert.title, alert.text, alert.to_do)
    why = f" {said.why}" if said else ""
    return {
        "summary": f"{title}: {alert.where}",
        "description": f"{what} {alert.value}{why}",
        "what_to_do": to_do,
        "runbook_url": page_link(pages, f"reference/causes/{cause}" if cause else f"how_to/alerts#{name}"),
    }


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


def not_alerted() -> dict[str, str]:
    """Causes that no alert tells of, with the reason."""
    return {cause: why for alert in alerts().values() for cause, why in alert.left_out.items()}
