from collections.abc import Sequence
from pathlib import Path

import pytest
from docs._build.program_reference import python_page, tools_page, type_text

import unslow


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (str | Sequence[str] | None, "str | Sequence[str] | None"),
        (str | Path, "str | Path"),
        (int, "int"),
        (tuple[unslow.Page, ...], "tuple[Page, ...]"),
        (unslow.Report, "Report"),
    ],
)
def test_types_are_shown_readably(kind, written):
    assert type_text(kind) == written


def test_every_public_name_is_on_the_page():
    page = python_page()
    assert not [name for name in unslow.__all__ if name != "__version__" and f"`unslow.{name}`" not in page]
    assert "unslow.fit(model, *, ...) -> FitReport" in page
    assert "| `device` | `str` or `Sequence[str]` or `None` | `'auto'` | " in page


def test_the_tools_page_separates_reading_from_changing_tools():
    reading, changing = tools_page().split("## With `--allow-apply` alone")
    assert "## `diagnose`" in reading
    assert "### `apply`" in changing
    assert "| `model` (needed) | " in reading
    assert "None" not in reading
