"""What `unslow fleet` writes for Prometheus and Grafana, without querying a server."""

import json
from pathlib import Path

import pytest

from unslow.__main__ import main


def _printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["fleet", *words]) == 0
    return capsys.readouterr().out


def test_rules_and_their_tests_are_printed(capsys: pytest.CaptureFixture[str]):
    assert "alert: UnslowGpuThermalThrottling" in _printed(capsys, "rules")
    assert 'cluster="swapping-1", instance="box:9100"' in _printed(capsys, "rules", "--tests")
    assert 'cluster="runtime_version_regressed-1"' in _printed(capsys, "rules", "--tests", "day")


def test_pages_option_sets_the_documentation_links(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    pages = "https://docs.example.org"
    assert f"runbook_url: {pages}/reference/causes/swapping.html" in _printed(capsys, "rules", "--pages", pages)
    _printed(capsys, "dashboard", "--pages", pages, "-o", str(tmp_path / "board.json"))
    variables = json.loads((tmp_path / "board.json").read_text("utf-8"))["templating"]["list"]
    assert {"text": f"{pages}/", "value": f"{pages}/"} in [v.get("current") for v in variables]
