"""The style sheet: the same dark colours by system and by choice, all colours defined, enough contrast."""

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


def test_dark_colours_are_the_same_by_system_and_by_choice():
    assert colours(':root:not([data-theme="light"]) {') == CHOSEN
    assert set(CHOSEN) == set(LIGHT)


def test_every_colour_that_is_used_is_defined():
    assert set(PROMISED) <= set(LIGHT)
    used = set(re.findall(r"var\(--([\w-]+)\)", style()))
    assert used <= {*LIGHT, "sans", "mono"}


def light_of(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("words", "ground"), READ)
@pytest.mark.parametrize("theme", [LIGHT, CHOSEN], ids=["light", "dark"])
def test_text_contrast_meets_wcag(theme, words, ground):
    """At least 4.5:1, the WCAG minimum for small text."""
    bright, dim = sorted((light_of(theme[words]), light_of(theme[ground])), reverse=True)
    assert (bright + 0.05) / (dim + 0.05) >= 4.5


def test_style_and_script_can_not_close_their_elements():
    assert "</style" not in style()
    assert "</script" not in script()
    assert "<!--" not in script()


def test_script_is_strict_small_and_without_eval():
    assert script().startswith('"use strict";')
    assert len(script().splitlines()) < 500
    assert not re.search(r"\beval\b|new Function|document\.write|\.style\b", script())


def test_dark_colours_apply_to_screens_only():
    for dark in (':root[data-theme="dark"] {', ':root:not([data-theme="light"]) {'):
        assert style()[: style().index(dark)].rstrip().splitlines()[-1].startswith("@media screen")
