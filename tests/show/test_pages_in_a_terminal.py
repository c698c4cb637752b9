"""The documentation page of every cause in a narrow terminal."""

import re

import pytest

from unslow.commands.explain import causes
from unslow.show.explain import page_text

PAGES = causes()
WIDTH = 80


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.id)
def test_cause_page_fits_a_narrow_terminal_and_keeps_its_commands(page):
    shown = page_text(page, width=WIDTH, color=False)
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert "##" not in shown
    words = " ".join(shown.replace("•", "-").split())
    for command in re.findall(r"`([^`]+)`", page.text):
        assert f"`{' '.join(command.split())}`" in words, command


def test_colored_page_has_no_backticks():
    assert "`" not in page_text(PAGES[0], width=WIDTH, color=True)
