"""Every example on the Python page runs, and the agent snippets are valid."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how_to" / "python.md").read_text("utf-8")
AGENTS = (ROOT / "docs" / "how_to" / "mcp.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_python_page_has_at_least_seven_examples():
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.split("unslow.")[1].split("(")[0])
def test_an_example_runs_and_prints_something(code, tmp_path, monkeypatch, capsys):
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "example", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.strip()


def test_the_agent_snippets_start_the_server():
    desktop, code = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", AGENTS, re.DOTALL))
    assert desktop["mcpServers"]["unslow"] == {"command": "unslow", "args": ["mcp"]}
    assert code["servers"]["unslow"] == {"type": "stdio", "command": "unslow", "args": ["mcp"]}


def test_every_tool_is_on_the_agents_page():
    from unslow.mcp.tools import Permissions, tools_for

    assert not [name for name in tools_for(Permissions(apply=True)) if f"`{name}`" not in AGENTS]
