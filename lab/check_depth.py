"""How often the judge of depths is right, on series made from physics with noise: `python -m lab.check_depth`.

Each row is 200 sweeps up and down; each column what they were called. Cliffs lie between any two depths in turn.
"""

from collections import Counter
from collections.abc import Callable

from lab.depth_series import ON_CPU, ON_H200, doubling, flat, kv_on_host, on_cpu, on_gpu, series, stepping

from unslow.think.stats.depth import Curve, Expectation, Reading, Verdict, judge_depths

SWEEPS = 200
VERDICTS: tuple[Verdict, ...] = ("slope", "cliff", "steep", "flat", "drift", "cannot_tell")

Make = Callable[[list[int], float, int], list[Reading]]


def cliff(times: float) -> Make:
    """A cliff of so many times, each time between two other depths."""
    return lambda depths, noise, seed: series(depths, stepping(times, depths[seed % (len(depths) - 1)]), noise, seed)


def taken(depths: list[int], noise: float, seed: int) -> list[Reading]:
    """Everything twice as slow from some moment on."""
    moment = 0.2 + 0.6 * (seed % 20) / 20
    return series(depths, on_gpu, noise, seed, slower=lambda share: 2.0 if share > moment else 1.0)


def throttled(depths: list[int], noise: float, seed: int) -> list[Reading]:
    """A quarter slower in the end, little by little."""
    return series(depths, flat, noise, seed, slower=lambda share: 1 + 0.25 * share)


KINDS: dict[str, tuple[Verdict, Expectation, Make]] = {
    "honest slope, GPU": ("slope", ON_H200, lambda d, n, s: series(d, on_gpu, n, s)),
    "honest slope, CPU": ("slope", ON_CPU, lambda d, n, s: series(d, on_cpu, n, s)),
    "KV on host": ("steep", ON_H200, lambda d, n, s: series(d, kv_on_host, n, s)),
    "flat": ("flat", ON_H200, lambda d, n, s: series(d, flat, n, s)),
    "cliff x1.3": ("cliff", ON_H200, cliff(1.3)),
    "cliff x1.5": ("cliff", ON_H200, cliff(1.5)),
    "cliff x3": ("cliff", ON_H200, cliff(3.0)),
    "cliff x20": ("cliff", ON_H200, cliff(20.0)),
    "x2 in time": ("drift", ON_H200, taken),
    "throttling": ("drift", ON_H200, throttled),
}


def row(kind: str, count: int, noise: float) -> str:
    """One row of the table; a cliff at the wrong depth is counted as wrong."""
    wanted, expected, make = KINDS[kind]
    curves = [(judge_depths(make(doubling(count), noise, seed), expected), seed) for seed in range(SWEEPS)]
    named = Counter(curve.verdict for curve, _ in curves)
    misplaced = sum(_misplaced(curve, doubling(count), seed) for curve, seed in curves) if wanted == "cliff" else 0
    right = (named[wanted] - misplaced) / SWEEPS
    wrong = 1 - right - named["cannot_tell"] / SWEEPS
    cells = "".join(f"{named[verdict]:>12}" for verdict in VERDICTS)
    return f"{kind:<20}{count:>3}{noise:>7.0%}{cells}{right:>8.0%}{wrong:>8.0%}"


def _misplaced(curve: Curve, depths: list[int], seed: int) -> bool:
    return curve.verdict == "cliff" and curve.knee != depths[seed % (len(depths) - 1)]


def main() -> None:
    """Print the table."""
    print(f"{'made':<20}{'n':>3}{'noise':>7}" + "".join(f"{verdict:>12}" for verdict in VERDICTS) + "   right   wrong")
    for kind in KINDS:
        for count in (4, 6, 8, 10):
            for noise in (0.01, 0.03, 0.05):
                print(row(kind, count, noise))


if __name__ == "__main__":
    main()
