"""The dashboard as Grafana would read it; no Grafana is at hand, so its JSON and every query are checked instead."""

import itertools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from real_prometheus import promtool

from unslow.facts.commands import as_yaml
from unslow.fleet.alerts import RULE_FILE
from unslow.fleet.dashboard import dashboard_text, fleet_files
from unslow.think.causes import all_causes

BOARD: dict[str, Any] = json.loads(dashboard_text())
PANELS = [panel for top in BOARD["panels"] for panel in (top, *top.get("panels", []))]
QUERIES = [target["expr"] for panel in PANELS for target in panel.get("targets", [])]
NOTED = [note["expr"] for note in BOARD["annotations"]["list"]]
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


def test_panel_ids_are_unique():
    ids = [panel["id"] for panel in PANELS]
    assert len(ids) == len(set(ids)) > 30


def test_no_two_panels_overlap_and_none_is_beyond_the_edge():
    for shown in (BOARD["panels"], *(panel["panels"] for panel in BOARD["panels"] if panel.get("collapsed"))):
        cells = [_cells(panel["gridPos"]) for panel in shown]
        assert all(not a & b for a, b in itertools.combinations(cells, 2))
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in PANELS)


def _cells(place: dict[str, int]) -> set[tuple[int, int]]:
    columns = range(place["x"], place["x"] + place["w"])
    return set(itertools.product(columns, range(place["y"], place["y"] + place["h"])))


def test_every_dashboard_query_is_valid_promql(tmp_path: Path):
    rules = [
        {"record": "x:y:z", "expr": _VARIABLE.sub(".*", expr), "labels": {"n": f"q{n}"}}
        for n, expr in enumerate(QUERIES + NOTED)
    ]
    (tmp_path / "queries.yml").write_text(as_yaml({"groups": [{"name": "queries", "rules": rules}]}), "utf-8")
    done = subprocess.run(
        [promtool(), "check", "rules", "queries.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(QUERIES + NOTED)} rules found" in done.stdout


def test_queries_use_only_defined_variables():
    there = {variable["name"] for variable in BOARD["templating"]["list"]}
    used = set(
        _VARIABLE.findall(
            " ".join(QUERIES + NOTED + [v["definition"] for v in BOARD["templating"]["list"] if "definition" in v])
        )
    )
    assert used == {"cluster", "model", "instance"} <= there
    assert {"datasource", "pages"} <= there
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in PANELS if "targets" in panel)


def test_no_panel_draws_one_line_per_instance():
    bounded = re.compile(r"^(?:topk|bottomk|count|sum|avg|max|quantile)\b")
    assert all(bounded.match(expr) for expr in QUERIES)


def test_each_cause_links_to_its_page():
    text = next(panel["options"]["content"] for panel in PANELS if panel["type"] == "text")
    assert all(
        f"${{pages:raw}}reference/causes/{name}.html" in text and cause.title in text
        for name, cause in all_causes().items()
    )
    tables = [panel for panel in PANELS if panel["type"] == "table"]
    links = [
        p["value"] for t in tables for o in t["fieldConfig"]["overrides"] for p in o["properties"] if p["id"] == "links"
    ]
    assert len(links) == len(tables) == 3
    assert all(link[0]["url"] == "${pages:raw}reference/causes/${__value.raw}.html" for link in links)


def test_documentation_address_is_configurable():
    variables = json.loads(dashboard_text("https://docs.example.org/"))["templating"]["list"]
    assert next(v for v in variables if v["name"] == "pages")["query"] == "https://docs.example.org/"


def test_panel_threshold_equals_the_alert_threshold():
    rules, panels = fleet_files()[RULE_FILE], {panel["title"]: panel for panel in PANELS}
    drawn = {title: p["fieldConfig"]["defaults"]["thresholds"] for title, p in panels.items() if _has_line(p)}
    assert len(drawn) == 9
    for title, thresholds in drawn.items():
        record = re.search(r"unslow:[\w:]+", panels[title]["targets"][0]["expr"])
        assert record
        begins = re.findall(rf"{record[0]}(?:\{{[^}}]*\}})? [<>]=? ([\d.]+)", rules)
        none, line = (step["value"] for step in thresholds["steps"])
        assert none is None
        assert line in map(float, begins), title


def _has_line(panel: dict[str, Any]) -> bool:
    return "thresholds" in panel.get("fieldConfig", {}).get("defaults", {})


def test_panels_that_need_unslow_exporter_say_so():
    needs = [panel for panel in PANELS if "`unslow exporter`" in panel.get("description", "")]
    told = {p["title"]: [re.search(r"\bunslow_\w", t["expr"]) for t in p.get("targets", [])] for p in PANELS}
    assert [panel["title"] for panel in needs] == [title for title, own in told.items() if own and all(own)]
    without = [panel["title"] for panel in PANELS if panel.get("targets") and panel not in needs]
    assert "Tok/s below the peers, highest" in without
    assert len(without) > len(needs) > 5


def test_instance_variable_depends_on_the_model_variable():
    instance = next(v for v in BOARD["templating"]["list"] if v["name"] == "instance")
    assert 'model=~"$model"' in instance["definition"]
