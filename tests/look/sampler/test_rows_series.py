from math import isnan, nan

import pytest

from unslow.look.sampler import rows as series_module
from unslow.look.sampler.rows import BLOCK_ROWS, LEVEL_BYTES, LEVELS, THINNER, Block, Series


def rows_of(series: Series) -> list[tuple[float, float]]:
    return [(s, block.columns[0][at]) for block in series.blocks() for at, s in enumerate(block.seconds)]


def small(monkeypatch: pytest.MonkeyPatch, olds: list[Block] | None = None) -> Series:
    monkeypatch.setattr(series_module, "HOUR_ROWS", 8 * BLOCK_ROWS)
    return Series(2, frozenset({1}), (olds if olds is not None else []).append)


def test_rows_come_back_as_added(monkeypatch: pytest.MonkeyPatch):
    series = small(monkeypatch)
    for number in range(3 * BLOCK_ROWS):
        series.add(number / 10, [number, 0])
    assert rows_of(series) == [(number / 10, number) for number in range(3 * BLOCK_ROWS)]


def test_old_rows_are_thinned_without_changing_the_mean(monkeypatch: pytest.MonkeyPatch):
    olds: list[Block] = []
    series = small(monkeypatch, olds)
    count = 16 * BLOCK_ROWS
    for number in range(count):
        series.add(number / 10, [number, 1 << (number % 3)])
    rows = rows_of(series)
    seconds = [s for s, _ in rows]
    assert seconds == sorted(seconds)
    assert len(rows) < count
    thin = [value for block in series._levels[1] for value in block.columns[0]]
    assert len(thin) == len(olds) * BLOCK_ROWS / THINNER
    assert sum(thin) / len(thin) == pytest.approx((len(olds) * BLOCK_ROWS - 1) / 2)
    oldest = next(series.blocks())
    assert len(oldest) == 0  # the thinnest level has nothing yet
    assert [len(block) for block in olds] == [BLOCK_ROWS] * len(olds)


def test_thinning_ors_masks_and_averages_present_values():
    block = Block(2)
    for number, (value, mask) in enumerate([(1.0, 4), (nan, 8), (3.0, nan), (nan, nan)]):
        block.add(number, [value, mask], phases=1 << number)
    thin = block.thin(2, frozenset({1}))
    assert list(thin.columns[0]) == [1.0, 3.0]
    assert thin.columns[1][0] == 12
    assert isnan(thin.columns[1][1])
    assert list(thin.phases) == [3, 12]
    assert list(thin.seconds) == [0.5, 2.5]


def test_series_memory_is_constant_over_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(series_module, "THINNER", 2)
    series = small(monkeypatch)
    sizes = []
    for number in range(32 * 4 * BLOCK_ROWS):
        series.add(number / 10, [number, 0])
        if number % (4 * BLOCK_ROWS) == 0:
            sizes.append(sum(len(block) for block in series.blocks()))
    assert max(sizes) <= LEVELS * 9 * BLOCK_ROWS
    assert len(set(sizes[-8:])) == 1


def test_more_columns_keep_fewer_rows():
    wide = Series(2000, frozenset(), lambda _block: None)
    assert wide._most * BLOCK_ROWS * 4 * 2000 <= max(LEVEL_BYTES, 8 * BLOCK_ROWS * 4 * 2000)
    assert Series(40, frozenset(), lambda _block: None)._most * BLOCK_ROWS == 35_840


def test_a_day_fits_at_ten_samples_per_second():
    rows = 36_000
    assert rows * (1 + THINNER + THINNER**2) / 10 >= 24 * 3600
