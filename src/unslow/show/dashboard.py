"""The dashboard of a fleet, as JSON that Grafana imports."""

import json
from typing import Any

from unslow.catalog.dashboard import dashboard_rows
from unslow.show._dashboard_panels import SOURCE, laid_out

SCHEMA = 41
"""That of Grafana 12; an older one leaves out what it does not know."""
SERVED = "http://127.0.0.1:8000/"
"""Where `python -m http.server -d site` serves the documentation: a variable on the dashboard, to be set there."""
_ENGINES = '{__name__=~"unslow:engine_running:avg5m|unslow_subject_info"'
_PLACE = "cluster, namespace, pod, job, instance, subject, version"


def dashboard_text(pages: str = SERVED) -> str:
    """The whole dashboard; `pages` is the address of the documentation that causes lead to."""
    return json.dumps(_dashboard(f"{pages.rstrip('/')}/"), indent=2, ensure_ascii=False) + "\n"


def _dashboard(pages: str) -> dict[str, Any]:
    return {
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
        "templating": {"list": _variables(pages)},
        "annotations": {"list": _annotations()},
        "links": [],
        "panels": laid_out(dashboard_rows()),
    }


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


def _annotations() -> list[dict[str, Any]]:
    """Changes of a version, as told by the exporter and by Kubernetes."""
    info, images = 'unslow_subject_info{version!=""}', "unslow:model_image:count"
    by_image = "cluster, namespace, model, image"
    versions = f"{info} unless on ({_PLACE}) {info} offset 10m"
    return [
        _annotation("Versions", versions, "{{subject}} {{version}}", "{{instance}}"),
        _annotation("Images", f"{images} unless on ({by_image}) {images} offset 10m", "{{model}}", "{{image}}"),
    ]


def _annotation(name: str, expr: str, title: str, text: str) -> dict[str, Any]:
    return {
        "name": name, "enable": True, "hide": False, "iconColor": "blue", "datasource": SOURCE, "expr": expr,
        "step": "60s", "titleFormat": title, "textFormat": text,
    }  # fmt: skip
