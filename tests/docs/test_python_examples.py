"""Every example of the page on Python runs, and the snippets for agents are what those programs read."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how_to" / "python.md").read_text("utf-8")
AGENTS = (ROOT / "docs" / "how_to" / "mcp.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_there_are_examples():
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.split("unslow.")[1].split("(")[0])
def test_an_example_runs_and_says_something(code, tmp_path, monkeypatch, capsys):
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "example", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.strip()


def test_the_snippets_for_agents_start_the_server():
    desktop, code = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", AGENTS, re.DOTALL))
    assert desktop["mcpServers"]["unslow"] == {"command": "unslow", "args": ["mcp"]}
    assert code["servers"]["unslow"] == {"type": "stdio", "command": "unslow", "args": ["mcp"]}


def test_every_tool_is_on_the_page():
    from unslow.mcp.tools import Allowed, tools_for

    assert not [name for name in tools_for(Allowed(apply=True)) if f"`{name}`" not in AGENTS]
