"""What the pages on the exporter show can be run and read."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from real_prometheus import promtool

from unslow.commands._dispatch import parse_words
from unslow.fleet.openmetrics import LONGEST_LABEL
from unslow.fleet.self_diagnosis import KEEP_S, STALE_LOOKS, STALE_S
from unslow.fleet.settings import ASK_S, ExporterSettings

HOW_TO = Path(__file__).parents[2] / "docs" / "how_to"
EXPORTER, DEPLOY = (HOW_TO / f"{name}.md" for name in ("exporter", "fleet_deploy"))


def blocks(path: Path, kind: str = "") -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == kind]


def test_every_exporter_command_is_accepted():
    lines = [line for block in blocks(EXPORTER) for line in block.splitlines() if line.startswith("unslow ")]
    asked = [parse_words(shlex.split(re.split(r"\s{3,}", line)[0])[1:])[1] for line in lines]
    assert len([ExporterSettings.of(one) for one in asked]) == 5


def test_every_named_deploy_file_exists():
    folder = HOW_TO.parents[1] / "deploy"
    named = re.findall(r"`([\w./-]+\.(?:yaml|service|timer|conf))`", DEPLOY.read_text("utf-8"))
    assert len(named) >= 8
    for name in named:
        assert any((folder / kind / name).exists() for kind in ("kubernetes", "systemd")) or list(folder.rglob(name))


def test_documented_times_match_the_constants():
    words = " ".join(EXPORTER.read_text("utf-8").split())
    assert f"stays for {KEEP_S / 60:.0f} minutes" in words
    assert (STALE_LOOKS, STALE_S) == (3, 300)
    assert "stays for three looks, at least five minutes" in words
    assert ASK_S == 2
    assert "queried every two seconds" in words
    assert f"cut at {LONGEST_LABEL} characters" in words


def test_promtool_accepts_every_query(tmp_path):
    queries = [line for block in blocks(EXPORTER, "promql") for line in block.splitlines()]
    assert len(queries) == 4
    rules = [{"record": f"asked:{number}", "expr": query} for number, query in enumerate(queries)]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}))
    done = subprocess.run([promtool(), "check", "rules", path], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_configuration(tmp_path):
    (config,) = blocks(EXPORTER, "yaml")
    path = tmp_path / "prometheus.yml"
    path.write_text(config)
    words = [promtool(), "check", "config", "--lint-fatal", path]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", [EXPORTER, DEPLOY], ids=lambda path: path.stem)
def test_every_generated_table_is_filled(path):
    marks = re.findall(r"<!-- (\w+): written by `make docs` -->\n(.*?)<!-- /\1 -->", path.read_text("utf-8"), re.DOTALL)
    assert marks
    assert all(text.count("|") > 10 for _name, text in marks)
