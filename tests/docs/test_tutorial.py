"""The tutorial's steps, run as written: a server is made slow, diagnosed, fixed, and compared."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
STEPS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
SECONDS = 600


def test_the_tutorial_has_its_steps_and_their_output():
    first, *_, last = STEPS
    assert "make run" in first
    assert last == "kill %1 %2\n"
    assert "SLOW" in TEXT
    assert "(threads_exceed_cores, " in TEXT
    assert "SPEED-UP" in TEXT


@pytest.mark.real
def test_the_tutorial_steps_run(tmp_path):
    slow, why, fixed, proof, end = STEPS[1:]
    script = "\n".join(["set -m", slow, why.replace("--log", "--quick --log"), fixed, proof, end])
    folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "threads_exceed_cores" in done.stdout, done.stdout + done.stderr
    assert re.search(r"FASTER|CANNOT TELL", done.stdout)  # on a busy machine it says that it can't tell
    assert "answers as before" in done.stdout
