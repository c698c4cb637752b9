import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.think.stats.repeats import disagreement


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([82, 100, 101], "the first of 3 was 18% slower than the others"),
        ([100, 101, 99, 100, 60, 100], "the fifth of 6 was 40% slower than the others"),
        ([100, 130, 101], "the second of 3 was 29% faster than the others"),
        ([100, 90, 80], "the speed falls steadily over the repeats, by 20% in total"),
        ([80, 84, 88, 93, 97], "the speed rises steadily over the repeats, by 21% in total"),
        ([100, 80, 101, 81, 100, 80], "the repeats form two groups: 3 were about 20% slower than the other 3"),
        ([100, 130, 75, 110, 90, 120], "the repeats scatter: from -29% to +24% of the median"),
    ],
)
def test_disagreement_is_described(values, said):
    assert disagreement(values) == said


def test_larger_times_are_slower(wording):
    wording(disagreement([1.0, 1.01, 1.5], lower_is_better=True), tells="49%")
    assert disagreement([1.0, 1.1, 1.2, 1.3], lower_is_better=True).startswith("the time rises")
    said = disagreement([1.0, 2.0, 1.01, 2.01], lower_is_better=True)
    wording(said, tells="100%")


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0], [100, 101, 102], [100, 104, 100, 104], [0, 0, 0]])
def test_small_or_few_differences_are_no_disagreement(values):
    assert disagreement(values) == ""


@pytest.mark.parametrize("count", [3, 6, 20])
def test_calm_repeats_agree(count):
    chance = random.Random(count)
    runs = [[chance.gauss(100, 1.0) for _ in range(count)] for _ in range(300)]
    assert sum(bool(disagreement(run)) for run in runs) <= 3


@given(st.lists(st.floats(0, 1e18), max_size=20), st.booleans())
def test_any_values_give_one_line(values, lower):
    assert "\n" not in disagreement(values, lower_is_better=lower)


def test_trend_of_a_long_run_is_described(wording):
    wording(disagreement([100 - n / 1500 for n in range(20_000)]), tells="9%")


def test_zero_values_do_not_fail(wording):
    assert disagreement([0.0, 0.0, 1.0, 5.0], lower_is_better=True)
    wording(disagreement([100.0, 101.0, 0.0]), tells="100%")
