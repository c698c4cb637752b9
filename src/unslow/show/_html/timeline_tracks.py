"""Tracks of a timeline by quantity: what a row shows, between which ends, and which of many devices differs."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median

from unslow.show._html.quantities import Quantity, named, quantity
from unslow.show._html.scales import LEAST, MOST, sane
from unslow.think.view.report import Track

_TALL = ("clock_hz", "power_w", "vram_used_bytes", "temperature_c", "busy")
"""First and taller: what tells most of a slow GPU."""
MOST_ROWS, MOST_LINES = 14, 64
SEVERAL = 3
"""So many lines can be told apart by colour and dashes; of more, all are faint but for one that differs."""
_DIFFERS = 0.12
"""Of the height of a row: a mean so far from the middle of the others is seen at a glance."""
_FAR = 50
"""A limit that is so many times what was seen would press all lines to the foot."""
_ROOM = 1.06
"""Above the highest value."""
_SAME = 1e-9
"""Of a value: what differs by less is the same."""
_DEGREES = 40
"""At least, so that a degree more or less is no mountain."""


@dataclass(frozen=True, slots=True)
class Line:
    """One device; only values that can be drawn."""

    device: str
    values: Sequence[float | None]
    low: float
    high: float
    mean: float
    last: float
    limit: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity of all devices."""

    name: str
    label: str
    lines: tuple[Line, ...]
    low: float
    high: float
    limit: float | None
    unit: Quantity
    odd: frozenset[int]
    """Which of many devices differ from the others, by place."""

    @property
    def is_tall(self) -> bool:
        """Whether it tells much of a slow GPU."""
        return self.name in _TALL

    @property
    def height(self) -> float:
        """Taller for what tells most."""
        return 54.0 if self.is_tall else 32.0

    @property
    def are_few(self) -> bool:
        """Whether each line has a colour of its own."""
        return len(self.lines) <= SEVERAL


def line_of(track: Track) -> Line | None:
    """The track, if it has a single value."""
    known = [value for value in track.values if value is not None]
    if not known:
        return None
    values: Sequence[float | None] = track.values
    if not (isfinite(sum(known)) and max(known) <= MOST and min(known) >= -MOST):
        values = [None if value is None else sane(value) for value in values]
        known = [value for value in values if value is not None]
    return Line(track.device, values, min(known), max(known), sum(known) / len(known), known[-1], track.limit)


def rows_of(tracks: Sequence[Track]) -> list[Row]:
    """Tracks by quantity, the telling ones first; what was nothing all the time is only in the table."""
    groups: dict[str, list[tuple[Track, Line]]] = {name: [] for name in _TALL}
    for track in tracks:
        line = line_of(track)
        if line and (track.name in _TALL or line.low or line.high):
            groups.setdefault(track.name, []).append((track, line))
    return [_row(name, found[:MOST_LINES]) for name, found in groups.items() if found][:MOST_ROWS]


def _row(name: str, found: Sequence[tuple[Track, Line]]) -> Row:
    lines = tuple(line for _, line in found)
    low, high = min(line.low for line in lines), max(line.high for line in lines)
    limits = [sane(line.limit) for line in lines if line.limit is not None and 0 < line.limit <= _FAR * max(high, 0.0)]
    limit = max(limits, default=None)
    unit = quantity(name, max(high, limit or 0.0))
    foot, head = _ends(unit, low, high, limit)
    shown = limit if limit is not None and unit.unit != "%" else None
    label = found[0][0].label or named(name)
    return Row(name, label, lines, foot, head, shown, unit, _odd(lines, head - foot))


def _ends(unit: Quantity, low: float, high: float, limit: float | None) -> tuple[float, float]:
    """From 0 to the limit; a temperature from about the lowest on."""
    most = max(high, limit or 0.0)
    if unit.unit == "%" and most <= 1:
        return min(0.0, low), 1.0
    if unit.unit == "°C":
        foot = min(low, most - _DEGREES) - 2
        return foot, foot + max(most - foot + 3, _DEGREES, abs(foot) * _SAME)
    foot = min(0.0, low)
    high_end = foot + (most - foot) * _ROOM
    return foot, high_end if high_end - foot > abs(foot) * _SAME + LEAST else foot + max(1.0, abs(foot))


def _odd(lines: Sequence[Line], height: float) -> frozenset[int]:
    if len(lines) <= SEVERAL:
        return frozenset()
    middle = median(line.mean for line in lines)
    usual = 3 * median(abs(line.mean - middle) for line in lines)
    far = max(_DIFFERS * height, usual)
    return frozenset(place for place, line in enumerate(lines) if abs(line.mean - middle) > far)


def short_device(device: str) -> str:
    """`GPU 3` of `GPU 3: NVIDIA H100`: of many devices the number tells them apart."""
    return device.split(": ", 1)[0]
