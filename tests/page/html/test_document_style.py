"""The style sheet: the same dark colours however dark is chosen, all colours defined, words that can be read."""

import re

import pytest

from unslow.page.html.document import script, style

PROMISED = (
    "weights", "kv", "compute", "stranger", "reserve", "free", "lacking", *(f"series-{n}" for n in range(1, 7)),
    "ok", "warn", "bad", "ink", "paper", "line",
)  # fmt: skip
READ = [
    ("ink", "page"), ("ink", "paper"), ("ink", "raised"), ("quiet", "page"), ("quiet", "paper"), ("quiet", "raised"),
    ("link", "page"), ("link", "paper"), ("ok", "paper"), ("warn", "paper"), ("bad", "paper"), ("ok", "raised"),
    ("warn", "raised"), ("ok", "ok-wash"), ("warn", "warn-wash"), ("bad", "bad-wash"),
    *(("on-fill", f"series-{n}") for n in range(1, 7)), ("on-fill", "bad"),
]  # fmt: skip


def colours(start: str) -> dict[str, str]:
    block = style()[style().index(start) :]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block[: block.index("}")]))


LIGHT, CHOSEN = colours(":root {"), colours(':root[data-theme="dark"] {')


def test_dark_is_the_same_by_the_system_and_by_choice():
    assert colours(':root:not([data-theme="light"]) {') == CHOSEN
    assert set(CHOSEN) == set(LIGHT)


def test_what_the_charts_rely_on_is_there():
    assert set(PROMISED) <= set(LIGHT)
    used = set(re.findall(r"var\(--([\w-]+)\)", style()))
    assert used <= {*LIGHT, "sans", "mono"}


def light_of(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("words", "ground"), READ)
@pytest.mark.parametrize("theme", [LIGHT, CHOSEN], ids=["light", "dark"])
def test_words_stand_out_from_their_ground(theme, words, ground):
    """4.5 to 1, as WCAG asks of small text."""
    bright, dim = sorted((light_of(theme[words]), light_of(theme[ground])), reverse=True)
    assert (bright + 0.05) / (dim + 0.05) >= 4.5


def test_neither_can_end_its_element():
    assert "</style" not in style()
    assert "</script" not in script()
    assert "<!--" not in script()


def test_the_script_stays_small_and_strict():
    assert script().startswith('"use strict";')
    assert len(script().splitlines()) < 500
    assert not re.search(r"\beval\b|new Function|document\.write|\.style\b", script())


def test_paper_is_never_dark():
    for dark in (':root[data-theme="dark"] {', ':root:not([data-theme="light"]) {'):
        assert style()[: style().index(dark)].rstrip().splitlines()[-1].startswith("@media screen")
