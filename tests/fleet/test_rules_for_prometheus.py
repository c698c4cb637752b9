"""Prometheus' own program takes the rules, and each alert fires for its fault and for no near miss."""

import subprocess
from pathlib import Path

import pytest
from real_prometheus import promtool

from unslow.fleet.alerts import RULE_FILE
from unslow.fleet.dashboard import fleet_files

DEPLOYED = Path(__file__).parents[2] / "deploy" / "prometheus"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All generated files."""
    where = tmp_path_factory.mktemp("rules")
    for name, text in fleet_files().items():
        (where / name).write_text(text, "utf-8")
    return where


def _promtool(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([promtool(), *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_promtool_accepts_the_rules(folder: Path):
    done = _promtool(folder, "check", "rules", "--lint=all", "--lint-fatal", RULE_FILE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


@pytest.mark.parametrize("name", ["unslow.tests.yml", "unslow.long.tests.yml"])
def test_every_alert_fires_only_for_its_fault(folder: Path, name: str):
    done = _promtool(folder, "test", "rules", name)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_files_in_the_repository_are_up_to_date():
    for name, text in fleet_files().items():
        assert (DEPLOYED / name).read_text("utf-8") == text, f"write deploy/prometheus/{name} again: make docs"
