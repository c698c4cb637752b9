"""Series that move in time by a rule: what is scraped at a moment and what is written into blocks are the same."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

_PERIOD_S = 173.0
"""Of the swing of a gauge: no multiple of a scrape or a window, so that means over windows are near its level."""
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Line(NamedTuple):
    """One series: a level that swings, or a count that grows."""

    name: str
    labels: Mapping[str, str]
    level: float
    """At the moment nought."""
    per_s: float = 0.0
    swing: float = 0.0
    """How far it goes above and below its level, as a share of it."""
    kind: str = "gauge"

    def at(self, seconds: float) -> float:
        """Its value so many seconds after the moment nought."""
        swung = self.level * self.swing * math.sin(2 * math.pi * seconds / _PERIOD_S + len(self.name))
        return self.level + self.per_s * seconds + swung

    def over(self, seconds: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> Any:
        """Its values at many moments."""
        swung = np.sin(2 * math.pi * seconds / _PERIOD_S + len(self.name)) if self.swing else 0.0
        return self.level * (1 + self.swing * swung) + self.per_s * seconds

    @property
    def identity(self) -> str:
        """As it is written: the name with all its labels."""
        inside = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in self.labels.items())
        return f"{self.name}{{{inside}}}"


def gauge(name: str, labels: Mapping[str, str], level: float, swing: float = 0.0) -> Line:
    """A level."""
    return Line(name, labels, level, 0.0, swing)


def counter(name: str, labels: Mapping[str, str], per_s: float, age_s: float) -> Line:
    """What was counted since a start so many seconds before the moment nought."""
    return Line(name, labels, per_s * age_s, per_s, kind="counter")


def mean_of(name: str, labels: Mapping[str, str], mean: float, per_s: float, age_s: float) -> Iterator[Line]:
    """The count and the sum of a histogram or a summary."""
    yield counter(f"{name}_count", labels, per_s, age_s)
    yield counter(f"{name}_sum", labels, per_s * mean, age_s)


def placed(lines: Iterable[Line], labels: Mapping[str, str], *, honor: bool = False) -> list[Line]:
    """The same with the labels that a scrape adds; the target's win and the series' own are kept, or the other way."""
    return [line._replace(labels=_joined(line.labels, labels, honor=honor)) for line in lines]


def _joined(own: Mapping[str, str], target: Mapping[str, str], *, honor: bool) -> dict[str, str]:
    if honor:
        return dict(sorted({**target, **own}.items()))
    kept = {f"exported_{name}" if name in target else name: value for name, value in own.items()}
    return dict(sorted({**kept, **target}.items()))


def exposed(lines: Iterable[Line], seconds: float) -> str:
    """The answer to a scrape at that moment."""
    return "".join(f"{line.identity} {line.at(seconds):.10g}\n" for line in lines)
