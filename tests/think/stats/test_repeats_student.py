import pytest

from unslow.think.stats.repeats import student_quantile, two_sided_p

# Published tables of Student's t, two-sided.
TABLE = [
    (0.95, 1, 12.706),
    (0.95, 2, 4.303),
    (0.95, 4, 2.776),
    (0.95, 10, 2.228),
    (0.95, 30, 2.042),
    (0.99, 3, 5.841),
    (0.99, 20, 2.845),
    (0.80, 5, 1.476),
    (0.95, 1e7, 1.960),
]


@pytest.mark.parametrize(("confidence", "df", "expected"), TABLE)
def test_quantiles_match_the_tables(confidence, df, expected):
    assert student_quantile(confidence, df) == pytest.approx(expected, abs=6e-4)
    assert two_sided_p(expected, df) == pytest.approx(1 - confidence, abs=1e-3)


def test_fractional_degrees_of_freedom_interpolate():
    assert student_quantile(0.95, 4) > student_quantile(0.95, 4.5) > student_quantile(0.95, 5)


def test_extreme_and_invalid_values_give_valid_p():
    assert two_sided_p(0.0, 5) == 1.0
    assert two_sided_p(1e9, 5) < 1e-30
    assert two_sided_p(float("nan"), 5) == 1.0
    assert two_sided_p(1.0, 0) == 1.0
