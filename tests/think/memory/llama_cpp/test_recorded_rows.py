"""Computed memory against the allocations of llama.cpp; `python -m lab.check_memory` compares every row."""

from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet
from lab.memory_rows import EXACT_MIB, FOLDER, Row, is_within, rows

EVERY = 9


def sample() -> Iterator[ParameterSet]:
    """Every so-manieth row, and the first of each model: that one, of a real header, tells the lines tested."""
    seen: set[str] = set()
    for path in sorted(FOLDER.glob("*.csv")):
        for n, row in enumerate(rows(path.name)):
            name = f"{row.model}-{row.settings.context}"
            first = row.model not in seen
            if first or n % EVERY == 0:
                traced = first and "@" not in row.model
                yield pytest.param(row, id=name, marks=() if traced else pytest.mark.no_cover)
            seen.add(row.model)


@pytest.mark.parametrize("row", list(sample()))
def test_every_part_is_exact(row: Row) -> None:
    errors = row.errors_mib()
    assert is_within(row, errors)
    assert max(map(abs, errors)) <= EXACT_MIB
