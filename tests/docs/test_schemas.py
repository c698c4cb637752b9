"""Every JSON answer has its schema in the reference, named in the documentation index."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from unslow.think.change import ApplyReport, UndoReport
from unslow.think.stats.tuning import TuneReport
from unslow.think.stats.verification_report import VerifyReport

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
REPORTS = [path for name in ("think", "buy", "fleet", "live") for path in (ROOT / "src/unslow" / name).rglob("*.py")]
WRITTEN = {name for path in REPORTS for name in re.findall(r'"unslow\.(\w+)/\d+"', path.read_text("utf-8"))}
NAMES = sorted(WRITTEN - {"exporter"})
"""The exporter's address is one line, and no report."""


def test_all_answers_with_schemas_are_found():
    assert {"apply", "undo", "verify", "tune", "plan", "report"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_has_a_schema_named_in_the_index(name):
    assert json.loads((REFERENCE / f"{name}.schema.json").read_text("utf-8"))["$defs"]
    assert f"reference/{name}.schema.json" in (ROOT / "docs" / "README.md").read_text("utf-8")


@pytest.mark.parametrize("report", [ApplyReport, UndoReport, VerifyReport, TuneReport])
def test_a_schema_has_the_fields_of_its_answer(report):
    name = report.__name__.removesuffix("Report").lower()
    written = json.loads((REFERENCE / f"{name}.schema.json").read_text("utf-8"))
    (own,) = (part for key, part in written["$defs"].items() if key.endswith(report.__name__))
    assert set(own["properties"]) == {field.encode_name for field in msgspec.structs.fields(report)}
    assert own["properties"]["schema"]["default"] == f"unslow.{name}/1"
