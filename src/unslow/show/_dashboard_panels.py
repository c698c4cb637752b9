"""Panels as Grafana has them in its JSON."""

import re
from collections.abc import Iterator
from typing import Any

from unslow.catalog.dashboard import Panel, Query, Row
from unslow.think.causes import all_causes
from unslow.think.fleet.alert_rules import filled

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
"""Of Grafana's grid."""
_MATCHERS = {
    "$engine": 'cluster=~"$cluster", model=~"$model", instance=~"$instance"',
    "$own": 'cluster=~"$cluster", instance=~"$instance"',
    "$where": 'cluster=~"$cluster"',
}
PAGE = "${pages:raw}reference/causes/"
"""Raw: an address that Grafana would encode leads nowhere."""
_OWN = re.compile(r"\bunslow_\w")
_VERDICTS = {"slow": "orange", "failed": "red", "normal": "green", "cannot_tell": "text"}


def laid_out(rows: tuple[Row, ...]) -> list[dict[str, Any]]:
    """All panels with a place of their own, each row under its heading; a closed row holds its panels itself."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        heading = _heading(row, top)
        placed, below = _placed(row.panels, top + 1)
        heading["panels"] = placed if row.closed else []
        panels += [heading] if row.closed else [heading, *placed]
        top = top + 1 if row.closed else below
    for number, panel in enumerate(_every(panels), 1):
        panel["id"] = number
    return panels


def _every(panels: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for panel in panels:
        yield panel
        yield from panel.get("panels", [])


def _heading(row: Row, top: int) -> dict[str, Any]:
    place = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
    return {"type": "row", "title": row.title, "collapsed": row.closed, "gridPos": place}


def _placed(panels: tuple[Panel, ...], top: int) -> tuple[list[dict[str, Any]], int]:
    """From left to right, and on to the next line where there is no room; with where the next row begins."""
    placed, left, below = [], 0, top
    for panel in panels:
        if left + panel.width > COLUMNS:
            left, top = 0, below
        place = {"x": left, "y": top, "w": panel.width, "h": panel.height}
        placed.append(_panel(panel) | {"gridPos": place})
        left, below = left + panel.width, max(below, top + panel.height)
    return placed, below


def _panel(panel: Panel) -> dict[str, Any]:
    named = {"title": panel.title, "description": f"{panel.why}{_needs(panel)}"}
    if panel.kind == "causes":
        return named | {"type": "text", "options": {"mode": "markdown", "content": _causes()}}
    targets = [_target(query, number, panel) for number, query in enumerate(panel.queries)]
    shown: dict[str, Any] = {"type": panel.kind, "datasource": SOURCE, "targets": targets}
    return named | shown | _looks(panel)


def _needs(panel: Panel) -> str:
    """What has to be scraped for it, where the usual exporters are not enough."""
    own = [_OWN.search(query.expr) for query in panel.queries]
    return " It needs `unslow exporter`." if own and all(own) else ""


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
        return _table()
    if panel.kind == "stat":
        return {"fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": _coloured()}, "options": _STAT}
    most = {} if panel.most is None else {"max": panel.most}
    custom: dict[str, Any] = {"fillOpacity": 10, "showPoints": "never"}
    defaults = {"unit": panel.unit, "min": 0, **most, "custom": custom}
    if panel.alert_at:
        custom["thresholdsStyle"] = {"mode": "dashed"}
        defaults["thresholds"] = {"mode": "absolute", "steps": _steps(float(filled(panel.alert_at)))}
    return {"fieldConfig": {"defaults": defaults, "overrides": []}, "options": _SERIES}


def _steps(alert_at: float) -> list[dict[str, Any]]:
    """One line; the first step is everything below it."""
    return [{"color": "transparent", "value": None}, {"color": "orange", "value": alert_at}]


_SERIES = {
    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
    "tooltip": {"mode": "multi", "sort": "desc"},
}
_STAT = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "background", "textMode": "value_and_name"}


def _coloured() -> list[dict[str, Any]]:
    return [
        _override(verdict, "color", {"mode": "fixed", "fixedColor": colour}) for verdict, colour in _VERDICTS.items()
    ]


def _table() -> dict[str, Any]:
    """A cause by its title, which leads to its page."""
    titles = {name: {"text": cause.title, "index": number} for number, (name, cause) in enumerate(all_causes().items())}
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


def _override(field: str, name: str, value: object) -> dict[str, Any]:
    return {"matcher": {"id": "byName", "options": field}, "properties": [{"id": name, "value": value}]}


def _causes() -> str:
    return "\n".join(f"- [{cause.title}]({PAGE}{name}.html) `{name}`" for name, cause in all_causes().items())
