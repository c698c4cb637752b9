"""The dashboard of a fleet, as JSON that Grafana imports, and the files that the repository keeps."""

import json
import re
from typing import Any

from unslow.catalog.prometheus import Panel, Query, Row, alerts, dashboard_rows, recordings
from unslow.fleet.alerts import (
    RULE_FILE,
    alert_name,
    filled,
    long_rule_tests_text,
    not_alerted,
    rule_tests_text,
    rules_text,
)
from unslow.think.causes import all_causes

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
SCHEMA = 41  # That of Grafana 12; an older one leaves out what it does not know
COLUMNS = 24  # Of Grafana's grid
SERVED = "http://127.0.0.1:8000/"
"""Where `python -m http.server -d site` serves the documentation: a variable on the dashboard, to be set there."""
PAGE = "${pages:raw}reference/causes/"  # Raw: an address that Grafana would encode leads nowhere
_MATCHERS = {
    "$engine": 'cluster=~"$cluster", model=~"$model", instance=~"$instance"',
    "$own": 'cluster=~"$cluster", instance=~"$instance"',
    "$where": 'cluster=~"$cluster"',
}
_ENGINES = '{__name__=~"unslow:engine_running:avg5m|unslow_subject_info"'
_PLACE = "cluster, namespace, pod, job, instance, subject, version"
_OWN = re.compile(r"\bunslow_\w")
_VERDICTS = {"slow": "orange", "failed": "red", "normal": "green", "cannot_tell": "text"}
_SERIES = {
    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
    "tooltip": {"mode": "multi", "sort": "desc"},
}
_STAT = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "background", "textMode": "value_and_name"}


def dashboard_text(pages: str = SERVED) -> str:
    """The whole dashboard; `pages` is the address of the documentation that causes lead to."""
    # Changes of a version, as told by the exporter and by Kubernetes
    info, images = 'unslow_subject_info{version!=""}', "unslow:model_image:count"
    by_image = "cluster, namespace, model, image"
    versions = f"{info} unless on ({_PLACE}) {info} offset 10m"
    annotations = [
        _annotation("Versions", versions, "{{subject}} {{version}}", "{{instance}}"),
        _annotation("Images", f"{images} unless on ({by_image}) {images} offset 10m", "{{model}}", "{{image}}"),
    ]
    dashboard = {
        "uid": "unslow-fleet",
        "title": "unslow: why the fleet is slow",
        "description": "Made by `unslow fleet dashboard`. It needs the recording rules of `unslow fleet rules`.",
        "tags": ["unslow", "llm"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": _variables(f"{pages.rstrip('/')}/")},
        "annotations": {"list": annotations},
        "links": [],
        "panels": laid_out(dashboard_rows()),
    }
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


def _variables(pages: str) -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    written = {"text": pages, "value": pages}
    return [
        source,
        _chosen("cluster", "Cluster", f"label_values({_ENGINES}}}, cluster)"),
        _chosen("model", "Model", f'label_values({_ENGINES}, cluster=~"$cluster"}}, model)'),
        _chosen("instance", "Instance", f'label_values({_ENGINES}, cluster=~"$cluster", model=~"$model"}}, instance)'),
        {"name": "pages", "label": "Documentation", "type": "textbox", "query": pages, "current": written},
    ]


def _chosen(name: str, label: str, query: str) -> dict[str, Any]:
    """Any number of values of a label; all of them where nothing is chosen, also where a series lacks the label."""
    asked = {"query": query, "refId": f"variable-{name}"}
    every = {"text": ["All"], "value": ["$__all"]}
    return {
        "name": name, "label": label, "type": "query", "datasource": SOURCE, "query": asked, "definition": query,
        "multi": True, "includeAll": True, "allValue": ".*", "refresh": 2, "sort": 1, "current": every,
    }  # fmt: skip


def _annotation(name: str, expr: str, title: str, text: str) -> dict[str, Any]:
    return {
        "name": name, "enable": True, "hide": False, "iconColor": "blue", "datasource": SOURCE, "expr": expr,
        "step": "60s", "titleFormat": title, "textFormat": text,
    }  # fmt: skip


def laid_out(rows: tuple[Row, ...]) -> list[dict[str, Any]]:
    """All panels with a place of their own, each row under its heading; a closed row holds its panels itself."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        place = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        heading = {"type": "row", "title": row.title, "collapsed": row.closed, "gridPos": place}
        placed, left, line, below = [], 0, top + 1, top + 1
        for panel in row.panels:  # from left to right, and on to the next line where there is no room
            if left + panel.width > COLUMNS:
                left, line = 0, below
            at = {"x": left, "y": line, "w": panel.width, "h": panel.height}
            placed.append(_panel(panel) | {"gridPos": at})
            left, below = left + panel.width, max(below, line + panel.height)
        heading["panels"] = placed if row.closed else []
        panels += [heading] if row.closed else [heading, *placed]
        top = top + 1 if row.closed else below
    every = [one for panel in panels for one in (panel, *panel.get("panels", []))]
    for number, one in enumerate(every, 1):
        one["id"] = number
    return panels


def _panel(panel: Panel) -> dict[str, Any]:
    own = [_OWN.search(query.expr) for query in panel.queries]
    needs = " It needs `unslow exporter`." if own and all(own) else ""
    named = {"title": panel.title, "description": f"{panel.why}{needs}"}
    if panel.kind == "causes":
        links = [f"- [{cause.title}]({PAGE}{name}.html) `{name}`" for name, cause in all_causes().items()]
        return named | {"type": "text", "options": {"mode": "markdown", "content": "\n".join(links)}}
    targets = [_target(query, number, panel) for number, query in enumerate(panel.queries)]
    shown: dict[str, Any] = {"type": panel.kind, "datasource": SOURCE, "targets": targets}
    return named | shown | _looks(panel)


def _target(query: Query, number: int, panel: Panel) -> dict[str, Any]:
    expr = query.expr
    for word, matchers in _MATCHERS.items():
        expr = expr.replace("{" + word, "{" + matchers)
    at_once = panel.kind != "timeseries"
    target = {"refId": chr(ord("A") + number), "datasource": SOURCE, "expr": expr, "legendFormat": query.legend}
    return target | {
        "instant": at_once,
        "range": not at_once,
        "format": "table" if panel.kind == "table" else "time_series",
    }


def _looks(panel: Panel) -> dict[str, Any]:
    if panel.kind == "table":
        titles = {
            name: {"text": cause.title, "index": number} for number, (name, cause) in enumerate(all_causes().items())
        }
        link = {"title": "What it is and how to fix it", "url": PAGE + "${__value.raw}.html", "targetBlank": True}
        overrides = [
            _override("cause", "mappings", [{"type": "value", "options": titles}]),
            _override("cause", "links", [link]),
        ]
        tidy = {"excludeByName": {"Time": True}, "renameByName": {"Value": "number"}}
        sort = [{"displayName": "number", "desc": True}]
        return {
            "fieldConfig": {"defaults": {}, "overrides": overrides},
            "options": {"showHeader": True, "sortBy": sort},
            "transformations": [{"id": "organize", "options": tidy}],
        }
    if panel.kind == "stat":
        coloured = [
            _override(verdict, "color", {"mode": "fixed", "fixedColor": colour})
            for verdict, colour in _VERDICTS.items()
        ]
        return {"fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": coloured}, "options": _STAT}
    most = {} if panel.most is None else {"max": panel.most}
    custom: dict[str, Any] = {"fillOpacity": 10, "showPoints": "never"}
    defaults = {"unit": panel.unit, "min": 0, **most, "custom": custom}
    if panel.alert_at:
        custom["thresholdsStyle"] = {"mode": "dashed"}
        # One line; the first step is everything below it
        defaults["thresholds"] = {
            "mode": "absolute",
            "steps": [
                {"color": "transparent", "value": None},
                {"color": "orange", "value": float(filled(panel.alert_at))},
            ],
        }
    return {"fieldConfig": {"defaults": defaults, "overrides": []}, "options": _SERIES}


def _override(field: str, name: str, value: object) -> dict[str, Any]:
    return {"matcher": {"id": "byName", "options": field}, "properties": [{"id": name, "value": value}]}


def fleet_files() -> dict[str, str]:
    """The files of deploy/prometheus by name."""
    return {
        RULE_FILE: rules_text(),
        "unslow.tests.yml": rule_tests_text(),
        "unslow.long.tests.yml": long_rule_tests_text(),
        "unslow.dashboard.json": dashboard_text(),
    }


def alert_blocks() -> dict[str, str]:
    """The generated parts of docs/how_to/alerts.md by the name of their block."""
    rows = []
    for name, alert in alerts().items():
        page = f"[`{alert.cause}`](../reference/causes/{alert.cause}.md)" if alert.cause else f"[below](#{name})"
        called = alert_name(name, alert, alert.cause)
        if not alert.every_cause:
            rows.append(f"| `{called}` | {page} | {alert.hold} | {alert.severity} | {alert.source} |")
    # Those that name no cause have their page here, where their runbooks lead
    apart = [
        f'| <a id="{name}"></a>`{alert_name(name, one, "")}` | {one.text} | {one.to_do} |'
        for name, one in alerts().items()
        if not one.cause and not one.every_cause
    ]
    left_out = [f"| [`{cause}`](../reference/causes/{cause}.md) | {why} |" for cause, why in not_alerted().items()]
    recorded = [f"| `{rule.record}` | {rule.why} |" for group in recordings().values() for rule in group.rules]
    return {
        "alerts": _table(("alert", "cause", "after", "severity", "where its numbers come from"), rows),
        "alerts apart": _table(("alert", "what it means", "what to do"), apart),
        "not alerted": _table(("cause", "why not"), left_out),
        "recordings": _table(("series", "what it is"), recorded),
    }


def _table(columns: tuple[str, ...], rows: list[str]) -> str:
    return "\n".join([f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *rows])
