"""Computed memory against what llama.cpp's own allocator asked for; `python -m lab.check_memory` compares every row."""

import pytest
from lab.memory_rows import EXACT_MIB, FOLDER, Row, is_within, rows

EVERY = 9


def sample() -> list[Row]:
    """Every so-manieth row, and the first of each model."""
    seen: set[str] = set()
    chosen = []
    for path in sorted(FOLDER.glob("*.csv")):
        for n, row in enumerate(rows(path.name)):
            if n % EVERY == 0 or row.model not in seen:
                chosen.append(row)
            seen.add(row.model)
    return chosen


@pytest.mark.parametrize("row", sample(), ids=lambda row: f"{row.model}-{row.settings.context}")
def test_every_part_is_exact(row: Row) -> None:
    errors = row.errors_mib()
    assert is_within(row, errors)
    assert max(map(abs, errors)) <= EXACT_MIB
