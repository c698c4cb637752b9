"""The examples of the how-to work as they stand there."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "how_to" / "serve.md"
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def commands():
    """Each curl command; lines that end with a backslash go on."""
    return [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines() if line.startswith("curl")]


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_every_documented_curl_command_works(page, wording):
    known = {"PATH": "/usr/bin:/bin", "BASE": page.own.base, "TOKEN": page.own.token}
    found = commands()
    assert len(found) >= 8
    for line in found:
        done = subprocess.run(["bash", "-c", line], env=known, capture_output=True, check=True, timeout=30)
        answer = json.loads(done.stdout)
        if '"kind"' in line:  # what was stored can't be measured, and the answer says so
            wording(answer["error"]["message"])
        else:
            assert "error" not in answer, line
