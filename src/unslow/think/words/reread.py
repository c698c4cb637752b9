"""The sides of a comparison that was written down without them, read from the text that was kept of it."""

import re
from collections.abc import Iterator

from unslow.facts.account import Comparison
from unslow.think.words import sides
from unslow.think.words.comparisons import BOTH_LINES, comparisons_told
from unslow.think.words.labelled import labels_at
from unslow.think.words.lines import Line, prose
from unslow.think.words.presence import count_in, has

_FIGURE = re.compile(r"(?<![\w.])\d{1,6}(?:\.\d{1,3})?(?![\w.]*\d)")
_ROUNDED = 0.02
"""Speeds that are this close in proportion are the same figure, rounded."""


def labels_in(told: Comparison) -> tuple[str, str]:
    """What the text says of the slow and of the fast side; empty where it says nothing of it."""
    lines = list(prose(told.text.split(BOTH_LINES), told.source))
    return next((way for way in _ways(told, lines) if any(way)), ("", ""))


def _ways(told: Comparison, lines: list[Line]) -> Iterator[tuple[str, str]]:
    """The surest first: both speeds with their words, a sentence about both, bare figures, and one side alone."""
    beside = [labels_at(line, told.slow, told.fast) for line in lines]
    slow, fast = (next((way[side] for way in beside if way[side]), "") for side in (0, 1))
    if slow and fast:
        yield slow, fast
    for other in comparisons_told(lines):
        yield other.slow_is, other.fast_is
    for line in lines:
        yield _before_figures(line.text, told)
    yield slow, fast
    for line in lines:
        yield sides.told(line.text)


def _before_figures(text: str, told: Comparison) -> tuple[str, str]:
    """`32 threads: 2.1, 16 threads: 5.3`: the words before each bare figure, where both speak of what differs."""
    figures = [m for m in _FIGURE.finditer(text) if _is_near(m, told.slow) or _is_near(m, told.fast)]
    if len(figures) != 2:  # noqa: PLR2004 (a pair)
        return "", ""
    labels = (text[: figures[0].start()], text[figures[0].end() : figures[1].start()])
    if not all(any(has(label, t) is not None or count_in(label, t) for t in told.differs) for label in labels):
        return "", ""
    return labels if _is_near(figures[0], told.slow) else (labels[1], labels[0])


def _is_near(figure: re.Match[str], speed: float) -> bool:
    return abs(float(figure[0]) - speed) <= _ROUNDED * speed
