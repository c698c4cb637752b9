"""The roofline: what the device allows at each intensity, and where this model's two phases lie under it."""

from collections.abc import Iterator, Sequence

from unslow.show._html.figure import Key, Table, figure
from unslow.show._html.markup import Markup
from unslow.show._html.quantities import plain
from unslow.show._html.roof_plot import SHAPES, Named, bound, bytes_rate, flops, roofline_drawn
from unslow.show._html.scales import sane
from unslow.show._html.svg import FORMATS, marker
from unslow.think.view.report import Roof, RooflinePoint, RooflineView

MOST_ROOFS, MOST_POINTS = 6, 12


def render(part: RooflineView, number: int) -> Markup:
    """The sentence, the picture, and its numbers."""
    roofs = _different(part.roofs)[:MOST_ROOFS]
    points = [point for point in part.points if sane(point.flops_per_byte) > 0][:MOST_POINTS]
    return figure(
        f"roofline-{number}",
        "Roofline",
        part.summary,
        lambda drawing: roofline_drawn(drawing, roofs, points),
        list(_keys(points)),
        [_roof_table(part.roofs), _point_table(part.points)],
        FORMATS[1:],
    )


def _different(roofs: Sequence[Roof]) -> list[Named]:
    """Roofs that differ, each with its name; eight of a kind are one."""
    groups: dict[tuple[float, float], list[Roof]] = {}
    for roof in roofs:
        if sane(roof.bytes_per_s) > 0 and sane(roof.flops_per_s) > 0 and _named([roof]).ridge > 0:
            groups.setdefault((roof.bytes_per_s, roof.flops_per_s), []).append(roof)
    return [_named(alike) for alike in groups.values()]


def _named(alike: Sequence[Roof]) -> Named:
    roof = alike[0]
    name = f"{len(alike)} × {roof.device}" if alike[1:] else roof.device
    return Named(name, sane(roof.bytes_per_s), sane(roof.flops_per_s))


def _keys(points: Sequence[RooflinePoint]) -> Iterator[Key]:
    for phase, shape in SHAPES.items():
        own = [point for point in points if point.phase == phase]
        if any(point.measured_flops_per_s is not None for point in own):
            yield Key(_sign(shape, f"measured {phase}", 4), f"{phase}, measured")
        if any(point.predicted_flops_per_s is not None for point in own):
            yield Key(_sign(shape, f"predicted {phase}", 5), f"{phase}, predicted")


def _sign(shape: str, class_: str, size: float) -> Markup:
    return Markup(f'<path d="{marker(12, 6, shape, size)}" class="mark {class_}"/>')


def _roof_table(roofs: Sequence[Roof]) -> Table:
    rows = [
        (
            roof.device,
            bytes_rate(roof.bytes_per_s),
            flops(roof.flops_per_s),
            plain(sane(roof.ridge_flops_per_byte)),
            roof.source,
        )
        for roof in roofs
    ]
    return Table("Limits of the devices", ("Device", "Memory", "Computing", "Ridge, FLOP per byte", "Source"), rows)


def _point_table(points: Sequence[RooflinePoint]) -> Table:
    columns = ("Phase", "FLOP per byte", "Measured", "Predicted", "Its roof", "Bound by")
    return Table("Phases of this model", columns, [*map(_point_row, points)])


def _point_row(point: RooflinePoint) -> tuple[str, ...]:
    values = (point.measured_flops_per_s, point.predicted_flops_per_s, point.roof_flops_per_s)
    cells = ("-" if value is None else flops(value) for value in values)
    return point.label or point.phase, plain(sane(point.flops_per_byte)), *cells, bound(point)
