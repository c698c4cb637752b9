"""What a Prometheus answered: series with one value each, or with a curve, and what it says of its own answer."""

from typing import NamedTuple


class Series(NamedTuple):
    """One series at one moment."""

    labels: dict[str, str]
    """With `__name__` where the query keeps it."""
    value: float


class Curve(NamedTuple):
    """One series over time; a moment without a sample is not there."""

    labels: dict[str, str]
    times_s: list[float]
    values: list[float]


class Answered(NamedTuple):
    """The answer to one instant query; every value is finite, and no two series have the same labels."""

    series: list[Series]
    warnings: tuple[str, ...] = ()
    """What the server says of its own answer, such as that a store did not respond: the answer is partial then."""
    failure: str = ""
    """Why there is no answer, where the server refused this query alone; the series are empty then."""
    valueless: int = 0
    """Series that are not among them: those with a value such as NaN, a share of nothing, and native histograms."""
    hint: str = ""
    """What to do about a failure."""


class AnsweredCurves(NamedTuple):
    """The answer to one range query."""

    curves: list[Curve]
    warnings: tuple[str, ...] = ()
    failure: str = ""
    hint: str = ""
