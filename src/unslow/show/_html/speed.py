"""How fast it is: a bar for each figure, against what was expected of it and what physics allows at most."""

from collections.abc import Iterator, Sequence
from math import isfinite

from unslow.show._html.markup import NOTHING, Markup, joined, tag
from unslow.show._html.words import amount, is_time, metric_name
from unslow.show._units import rate, span
from unslow.think.report import Range
from unslow.think.view.report import SpeedRow

_ROOM = 1.03
"""Of the largest value: so that its mark does not stand on the edge."""
_THINNEST = 0.35
"""Percent of the width: a bar that is nearly nothing can still be seen."""
_FAR = 6.0
"""Times as much as anything else: a ceiling beyond that would leave the rest of the bar a speck."""
_TICKS = 5
_BAR = 30
_DECODE = "decode_tokens_per_s"
_LITTLE = 0.02
"""A share that needs a digit more."""


def bullets(rows: Sequence[SpeedRow]) -> Markup:
    """Every figure with its bar."""
    return tag("div", *map(_bullet, rows), class_="bullets")


def _bullet(row: SpeedRow) -> Markup:
    better = tag("span", "less is better", class_="quiet") if is_time(row.metric) else NOTHING
    head = tag("h4", metric_name(row.metric), " ", better)
    top = _top(row)
    bar = _bar(row, top) if top > 0 else NOTHING
    return tag("div", head, bar, tag("ul", *_legend(row, top), class_="legend"), class_="bullet")


def _top(row: SpeedRow) -> float:
    """Where the bar ends: at the ceiling, unless that is so far off that nothing else could be seen; 0 for no bar."""
    highs = [reach.high for reach in (row.as_configured, row.achievable) if reach]
    others = [value for value in (row.measured, row.goal, *highs) if value and isfinite(value)]
    near = max(others, default=0.0)
    shows_ceiling = row.ceiling is not None and row.ceiling <= _FAR * near
    if len(others) + shows_ceiling <= 1:  # a bar that is full of one value would say that all is reached
        return 0.0
    return _ROOM * max(near, row.ceiling if shows_ceiling and row.ceiling else 0.0)


def _marks(row: SpeedRow) -> list[tuple[float, str]]:
    return [(value, name) for value, name in ((row.ceiling, "ceiling"), (row.goal, "goal")) if value is not None]


def _bar(row: SpeedRow, top: float) -> Markup:
    parts = [tag("rect", x="0", y="4", width="100%", height="22", class_="track")]
    if row.as_configured:
        parts.append(_band(row.as_configured, top, "now"))
    if row.achievable:
        parts += [_band(row.achievable, top, "best"), _line(row.achievable.mid, top, "mid", 4, 26)]
    if row.measured is not None:
        width = max(_percent(row.measured, top), _THINNEST)
        parts.append(tag("rect", x="0", y="11", width=f"{width:.3f}%", height="8", class_="bar-measured"))
    parts += [_line(value, top, name, 0, _BAR) for value, name in _marks(row) if value <= top]
    parts += _axis(row.metric, top)
    return tag("svg", *parts, class_="bar", width="100%", height=f"{_BAR + 16}", role="img", aria_label=_said(row))


def _percent(value: float, top: float) -> float:
    return 100 * max(0.0, value) / top


def _band(reach: Range, top: float, name: str) -> Markup:
    low, high = _percent(reach.low, top), _percent(reach.high, top)
    width = max(high - low, _THINNEST)
    return tag("rect", x=f"{low:.3f}%", y="4", width=f"{width:.3f}%", height="22", class_=f"band-{name}")


def _line(value: float, top: float, name: str, start: int, end: int) -> Markup:
    x = f"{_percent(value, top):.3f}%"
    return tag("line", x1=x, x2=x, y1=str(start), y2=str(end), class_=f"mark-{name}")


def _axis(metric: str, top: float) -> Iterator[Markup]:
    for tick in nice_ticks(top, _TICKS):
        x, shown = f"{_percent(tick, top):.3f}%", span(tick) if is_time(metric) and tick else f"{tick:,.6g}"
        yield tag("line", x1=x, x2=x, y1="26", y2="30", class_="tick")
        yield tag("text", shown, x=x, y=str(_BAR + 12), text_anchor="start" if tick == 0 else "middle")


def nice_ticks(top: float, most: int) -> list[float]:
    """Round numbers from 0 on, at most so many, none within the last fifteenth where its text would be cut."""
    step = 10.0 ** (len(f"{int(top / most)}") - 1) if top >= most else 10.0**-9
    while top / step > most:
        step *= 2.5 if f"{step:e}".startswith("2") else 2
    return [number * step for number in range(most + 1) if number * step <= top * 0.94]


def _legend(row: SpeedRow, top: float) -> Iterator[Markup]:
    if row.measured is not None:
        yield _key("measured", "measured", tag("strong", amount(row.metric, row.measured)))
    same = row.as_configured == row.achievable
    if row.as_configured and not same:
        yield _key("now", "as set up", _reach(row.metric, row.as_configured))
    if row.achievable:
        yield _key("best", "achievable", _reach(row.metric, row.achievable))
    if row.ceiling is not None:
        far = ", beyond this scale" if 0 < top < row.ceiling else ""
        name = "ceiling by bandwidth" if row.metric == _DECODE else "ceiling by arithmetic"
        yield _key("ceiling", name, f"{amount(row.metric, row.ceiling)}{_reached(row)}{far}")
    if row.goal is not None:
        yield _key("goal", "your goal", amount(row.metric, row.goal))


def _reached(row: SpeedRow) -> str:
    if row.measured is None or not row.ceiling:
        return ""
    share = row.measured / row.ceiling
    return f", {share:.0%} reached" if share >= _LITTLE else f", {share:.1%} reached"


def _key(name: str, label: str, value: str) -> Markup:
    return tag("li", tag("span", class_=f"key key-{name}", aria_hidden="true"), f"{label} ", tag("b", value))


def _reach(metric: str, reach: Range) -> str:
    low, mid, high = (span(v) if is_time(metric) else rate(v) for v in (reach.low, reach.mid, reach.high))
    unit = "" if is_time(metric) else " tok/s"
    return f"{low} to {high}{unit}, about {mid}"


def _said(row: SpeedRow) -> str:
    """The bar in words."""
    measured = f"{amount(row.metric, row.measured)} measured" if row.measured is not None else "not measured"
    best = f", {_reach(row.metric, row.achievable)} achievable" if row.achievable else ""
    ceiling = f", {amount(row.metric, row.ceiling)} at most" if row.ceiling is not None else ""
    return f"{metric_name(row.metric)}: {measured}{best}{ceiling}"


def speeds(rows: Sequence[SpeedRow]) -> Markup:
    """The panel's content."""
    return bullets(rows) if rows else joined([tag("p", "No speed was measured.", class_="quiet")])
