"""Student's t: how far the mean of a few values may lie from the truth by chance."""

import math
import statistics
from functools import lru_cache

_TERMS, _CLOSE, _TINY = 400, 1e-12, 1e-300
_FARTHEST, _MOST_STEPS = 1e6, 60


def two_sided_p(t: float, df: float) -> float:
    """How often chance alone gives a value at least as far from 0 as `t`."""
    if math.isnan(t) or df <= 0:
        return 1.0
    return min(1.0, incomplete_beta(df / 2, 0.5, df / (df + t * t)))


@lru_cache(maxsize=1024)
def quantile(confidence: float, df: float) -> float:
    """The t that chance stays within, on both sides, with that confidence; at most a million.

    By Newton's steps from the normal distribution, which lies below every t: the tail is convex, so none goes too far.
    """
    t = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    for _ in range(_MOST_STEPS):
        step = (two_sided_p(t, df) - (1 - confidence)) / (2 * density(t, df))
        t += step
        if abs(step) <= _CLOSE * t or t > _FARTHEST:
            break
    return min(t, _FARTHEST)


def density(t: float, df: float) -> float:
    """The probability of each unit around t."""
    log_front = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2
    return math.exp(log_front - (df + 1) / 2 * math.log1p(t * t / df))


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction on the side where that converges fast."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _fraction(a, b, x) / a
    return 1 - math.exp(log_front) * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, evaluated from the front."""
    numerator, denominator = 1.0, _kept_from_zero(1 - (a + b) * x / (a + 1))
    denominator = 1 / denominator
    value = denominator
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            denominator = 1 / _kept_from_zero(1 + term * denominator)
            numerator = _kept_from_zero(1 + term / numerator)
            value *= denominator * numerator
        if abs(denominator * numerator - 1) < _CLOSE:
            break
    return value


def _kept_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
