"""Every command in the questions, the tutorial and the README is accepted by the program."""

import re
import shlex
from pathlib import Path

import pytest

from unslow.commands._dispatch import parse_words
from unslow.facts.errors import UserError

ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / "README.md", ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "questions").glob("*.md"))]
BLOCK = re.compile(r"```(?:sh|console)\n(.*?)```", re.DOTALL)


def commands(path: Path) -> list[list[str]]:
    """The words of every line of a shell block that starts with `unslow`."""
    lines = [line for block in BLOCK.findall(path.read_text("utf-8")) for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.split()[:1] == ["unslow"]]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
def test_every_documented_command_is_accepted(path):
    for words in commands(path):
        assert parse_words(words), words


def test_documented_commands_are_found():
    assert all(commands(path) for path in SOURCES if path.parent.name != "questions")
    assert ["watch"] in commands(ROOT / "docs" / "questions" / "gpu_busy_and_slow.md")


def test_a_wrong_flag_would_be_noticed():
    with pytest.raises(UserError, match="no-such-flag"):
        parse_words(["tiers", "--no-such-flag"])
