"""Release dates of llama.cpp builds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.think.speed.question import is_numbered, year_of_build


@pytest.mark.parametrize(
    ("text", "year"),
    [("2024-05", 2024.375), ("b5863 2025-07-10", 2025.54), ("b9187 0253fb21", 2026.4), ("2025", 2025.5), ("", 2025.5)],
)
def test_builds_are_dated(text: str, year: float) -> None:
    assert year_of_build(text) == pytest.approx(year, abs=0.02)


@given(st.integers(1000, 99_999), st.integers(1000, 99_999))
def test_later_build_number_is_never_older(one: int, other: int) -> None:
    earlier, later = sorted((one, other))
    assert 2023 < year_of_build(f"b{earlier}") <= year_of_build(f"b{later}") < 2030


def test_only_b_numbers_are_build_numbers() -> None:
    assert is_numbered("version b10586")
    assert not is_numbered("0.12.3 (2025)")
