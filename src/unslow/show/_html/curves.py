"""A curve: what was measured with its interval against what was predicted, by depth of the context or by users."""

from collections.abc import Iterator, Sequence

from unslow.show._html.curve_plot import FEET, curve_drawn
from unslow.show._html.figure import Key, Table, figure
from unslow.show._html.markup import Markup
from unslow.show._html.scales import sane
from unslow.show._html.svg import FORMATS, marker
from unslow.show._html.words import amount
from unslow.think.view.report import CurvePoint, CurveView

MOST_POINTS = 200
"""More can't be told apart."""
_TITLES = {"depth": "Speed by depth of the context", "users": "Speed by users at once"}


def render(part: CurveView, number: int) -> Markup:
    """The verdict as a sentence, the curve, and its numbers."""
    title = _TITLES[part.axis]
    said = ": ".join(text for text in (part.verdict.replace("_", " "), part.because) if text) or title
    points = sorted(part.points, key=lambda point: sane(point.at))[:MOST_POINTS]
    return figure(
        f"{part.axis}-{number}",
        title,
        said,
        lambda drawing: curve_drawn(drawing, part, points),
        list(_keys(points)),
        [_table(part)],
        FORMATS[1:],
    )


def _keys(points: Sequence[CurvePoint]) -> Iterator[Key]:
    if any(p.measured is not None for p in points):
        whiskers = any(p.low is not None for p in points)
        yield Key(_line_sign("measured", "round"), "measured, with its interval" if whiskers else "measured")
    if any(p.predicted is not None for p in points):
        yield Key(_line_sign("predicted", "diamond"), "predicted")
    if any(p.predicted_low is not None for p in points):
        sign = Markup('<rect x="0" y="0" width="24" height="12" class="band"/>')
        yield Key(sign, "interval of the prediction")


def _line_sign(name: str, shape: str) -> Markup:
    mark = f'<path d="{marker(12, 6, shape, 4)}" class="mark {name}"/>'
    return Markup(f'<path d="M0,6L24,6" class="line {name}"/>{mark}')


def _table(part: CurveView) -> Table:
    columns = (FEET[part.axis], "measured", "interval", "predicted", "its interval", "note")
    when = f", measured {part.measured_at}" if part.measured_at else ""
    return Table(f"{_TITLES[part.axis]}{when}", columns, [_row(part.metric, point) for point in part.points])


def _row(metric: str, point: CurvePoint) -> tuple[str, ...]:
    return (
        f"{sane(point.at):,.0f}",
        _cell(metric, point.measured),
        _ends(metric, point.low, point.high),
        _cell(metric, point.predicted),
        _ends(metric, point.predicted_low, point.predicted_high),
        point.note,
    )


def _cell(metric: str, value: float | None) -> str:
    return "-" if value is None else amount(metric, sane(value))


def _ends(metric: str, low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{amount(metric, sane(low))} to {amount(metric, sane(high))}"
