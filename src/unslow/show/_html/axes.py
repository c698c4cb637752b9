"""Axes: faint lines across, numbers that keep out of each other's way, and the unit said once."""

from collections.abc import Callable, Iterable

from unslow.show._html.labels import Box, width
from unslow.show._html.scales import Scale
from unslow.show._html.svg import LINE, Drawing

_APART = 8.0
"""Between two numbers of an axis."""


def foot_axis(
    drawing: Drawing, area: Box, scale: Scale, ticks: Iterable[float], said: Callable[[float], str], unit: str
) -> float:
    """The axis below the area: numbers that would touch are left out. Gives the lowest place used."""
    end = -_APART
    for tick in ticks:
        x, words = scale.at(tick), said(tick)
        drawing.line(x, area.top, x, area.bottom, "grid")
        start = max(0.0, min(drawing.format.width - width(words), x - width(words) / 2))
        if start >= end + _APART:
            drawing.words(x, area.bottom + LINE + 1, words, "middle", "quiet")
            end = start + width(words)
    drawing.line(area.left, area.bottom, area.right, area.bottom, "axis")
    drawing.words((area.left + area.right) / 2, area.bottom + 2 * LINE + 3, unit, "middle", "quiet")
    return area.bottom + 2 * LINE + 8


def side_axis(drawing: Drawing, area: Box, scale: Scale, ticks: Iterable[float], said: Callable[[float], str]) -> None:
    """The axis at the left of the area: from the foot upwards, numbers that would touch are left out."""
    last = area.bottom + LINE
    for tick in ticks:
        y = scale.at(tick)
        drawing.line(area.left, y, area.right, y, "grid")
        if last - y >= LINE - 1:
            drawing.words(area.left - 6, y + 4, said(tick), "end", "quiet")
            last = y


def margin(words: Iterable[str]) -> float:
    """How much room the numbers at the left need."""
    return max((width(word) for word in words), default=0.0) + 8
