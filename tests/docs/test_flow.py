"""The page on how a diagnosis flows names what is there, in the order in which it is entered."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_the_page_has_all_its_steps():
    assert len(ROWS) > 30


@pytest.mark.parametrize(("path", "function"), [row for row in ROWS if row[0] != "__main__.py"])
def test_every_step_is_entered(entered, path, function):
    assert (path, function) in entered


def test_steps_stand_in_the_order_in_which_they_are_entered(entered):
    steps = [row for row in ROWS if row[0] != "__main__.py"]
    assert steps == sorted(steps, key=lambda row: entered.get(row, 0))


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(\w[\w/]*\.py)`", PAGE))))
def test_every_file_is_there(path):
    assert (PACKAGE / path).is_file()
