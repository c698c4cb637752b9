"""The page that follows a log line to the report shows what really happens, and names the steps in their order."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs._build.flow_page import RECORDING as FOLLOWED
from docs._build.flow_page import followed_line

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "unslow"
PAGE = (ROOT / "docs" / "explanation" / "flow.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(\S+\.py)` \| `([\w.]+)` \|", PAGE, re.MULTILINE)
RECORDING = re.search(r"unslow diagnose (\S+)", PAGE)[1]


TRACER = f"""
import json, sys
from unslow.commands._dispatch import dispatch
order = {{}}
def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith({str(PACKAGE)!r}):
        order.setdefault((code.co_filename, code.co_qualname), None)
sys.setprofile(note)
dispatch(["diagnose", {RECORDING!r}, "--quiet"])
sys.setprofile(None)
print("\\n" + json.dumps(list(order)))
"""


@pytest.fixture(scope="module")
def entered():
    """Every function that the diagnosis enters, in the order of its first call, in a process that remembers nothing."""
    done = subprocess.run([sys.executable, "-c", TRACER], cwd=ROOT, capture_output=True, text=True, check=True)
    calls = json.loads(done.stdout.splitlines()[-1])
    return {(Path(path).relative_to(PACKAGE).as_posix(), name): n for n, (path, name) in enumerate(calls)}


def test_the_flow_page_has_all_its_steps():
    assert len(ROWS) > 30


@pytest.mark.parametrize(("path", "function"), [row for row in ROWS if row[0] != "__main__.py"])
def test_every_step_of_the_flow_page_runs(entered, path, function):
    assert (path, function) in entered


def test_flow_steps_are_in_the_order_in_which_they_run(entered):
    steps = [row for row in ROWS if row[0] != "__main__.py"]
    assert steps == sorted(steps, key=lambda row: entered.get(row, 0))


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(\w[\w/]*\.py)`", PAGE))))
def test_every_file_on_the_flow_page_exists(path):
    assert (PACKAGE / path).is_file()


def test_followed_line_is_shown_as_it_is_at_each_step():
    assert str(FOLLOWED.relative_to(ROOT)) == RECORDING
    for name, text in followed_line().items():
        _, _, block = PAGE.partition(f"<!-- {name}: written by `make docs` -->")
        assert text.strip() in block.partition(f"<!-- /{name} -->")[0], f"{name}: run `make docs`"


def test_number_in_the_log_is_the_number_in_the_report():
    steps = followed_line()
    free_mib = int(re.search(r"(\d+) MiB free", steps["log line"])[1])
    assert json.loads(steps["evidence"])["value"] == free_mib * 2**20
    assert f"{free_mib / 2**10:.1f} GiB" in steps["shown"]
