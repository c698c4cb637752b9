from collections.abc import Sequence
from pathlib import Path

import pytest
from docs.program_reference import python_page, spelled, tools_page

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
def test_types_are_written_as_people_write_them(kind, written):
    assert spelled(kind) == written


def test_every_public_name_is_on_the_page():
    page = python_page()
    assert not [name for name in unslow.__all__ if name != "__version__" and f"`unslow.{name}`" not in page]
    assert "unslow.fit(model, *, ...) -> FitReport" in page
    assert "| `device` | `str` or `Sequence[str]` or `None` | `'auto'` | " in page


def test_the_page_of_tools_keeps_what_changes_apart():
    reading, changing = tools_page().split("## With `--allow-apply` alone")
    assert "## `diagnose`" in reading
    assert "### `apply`" in changing
    assert "| `model` (needed) | " in reading
    assert "None" not in reading
