"""The timeline of a run: phases, reasons for low clocks, then one row for each quantity, all on one axis of time."""

from collections.abc import Sequence

from unslow.show._html.axes import foot_axis
from unslow.show._html.figure import Key, Table, figure
from unslow.show._html.labels import Box
from unslow.show._html.markup import Markup
from unslow.show._html.quantities import named, plain, quantity
from unslow.show._html.scales import Linear, clock_ticks, sane
from unslow.show._html.svg import LINE, Drawing, hatch
from unslow.show._html.timeline_lanes import PHASES, joined_spans, lanes
from unslow.show._html.timeline_rows import rows_drawn
from unslow.show._html.timeline_tracks import Row, line_of, rows_of
from unslow.show._units import span
from unslow.think.view.report import TimelineView, Track

_TITLE = "What the devices did over time"
_LEFT = {"wide": 156.0, "middle": 132.0, "narrow": 56.0}
_RIGHT = {"wide": 104.0, "middle": 98.0, "narrow": 6.0}
"""Room for words beside the rows; on a phone they stand above."""
_HOUR_S, _MINUTE_S = 7200, 180
"""From there on the axis counts in hours, or in minutes."""


def render(part: TimelineView, number: int) -> Markup:
    """The sentence, the rows, and the numbers of each."""
    rows = rows_of(part.tracks)
    tables = [_track_table(part.tracks), _phase_table(part), _mark_table(part)]
    return figure(
        f"timeline-{number}",
        _TITLE,
        part.summary,
        lambda drawing: _draw(drawing, part, rows),
        _keys(part, rows),
        tables,
    )


def _draw(drawing: Drawing, part: TimelineView, rows: Sequence[Row]) -> None:
    ends = [sane(s) for s in (*part.times_s, *(s.end_s for s in part.spans), *(m.end_s for m in part.marks))]
    end_s = max(ends, default=0.0)
    if end_s <= 0:
        drawing.words(0, LINE, "nothing was sampled", class_="quiet")
        drawing.height = 2 * LINE
        return
    hatch(drawing, "harmful", "hatch-harmful", 5)
    hatch(drawing, "harmless", "hatch-harmless", 8)
    time = Linear(0, end_s, _LEFT[drawing.format.name], drawing.format.width - _RIGHT[drawing.format.name])
    behind = len(drawing.parts)
    lanes(drawing, time, part)
    rows_drawn(drawing, time, part, rows)
    _time_axis(drawing, time, end_s, behind)


def _time_axis(drawing: Drawing, time: Linear, end_s: float, behind: int) -> None:
    """The axis at the foot; its lines run through all rows, behind what is drawn already."""
    by, unit = (3600, "h") if end_s > _HOUR_S else (60, "min") if end_s > _MINUTE_S else (1, "s")
    area = Box(time.start, 0, time.end, drawing.height)
    drawn, drawing.parts = drawing.parts[behind:], drawing.parts[:behind]
    most = drawing.format.ticks
    drawing.height = foot_axis(
        drawing, area, time, clock_ticks(end_s, most), lambda tick: plain(tick / by), f"time, {unit}"
    )
    drawing.parts += drawn


def _keys(part: TimelineView, rows: Sequence[Row]) -> list[Key]:
    few = max((row.lines for row in rows if row.are_few), key=len, default=())
    signs = [Markup(f'<path d="M0,6L24,6" class="line series-{place + 1}"/>') for place in range(len(few))]
    keys = [Key(sign, line.device) for sign, line in zip(signs, few, strict=True)] if len(few) > 1 else []
    if any(track.limit for track in part.tracks):
        keys.append(Key(Markup('<path d="M0,6L24,6" class="limit"/>'), "its limit"))
    for harmful, words in ((True, "the driver holds the clocks back"), (False, "low clocks that cost nothing")):
        if any(mark.harmful == harmful for mark in part.marks):
            name = "harmful" if harmful else "harmless"
            lines = f'<path d="M0,12L12,0M6,12L18,0M12,12L24,0" class="hatch-{name}"/>'
            sign = f'<rect x="0" y="0" width="24" height="12" class="throttle {name}"/>{lines}'
            keys.append(Key(Markup(sign), words))
    return keys


def _track_table(tracks: Sequence[Track]) -> Table:
    return Table("Over the whole run", ("What", "Device", "Least", "Mean", "Most", "Limit"), [*map(_track_row, tracks)])


def _track_row(track: Track) -> tuple[str, ...]:
    words, line = track.label or named(track.name), line_of(track)
    if line is None:
        return words, track.device, "-", "-", "-", "-"
    unit = quantity(track.name, max(line.high, sane(track.limit or 0)))
    limit = "-" if track.limit is None else unit.full(track.limit)
    return words, track.device, *(unit.full(value) for value in (line.low, line.mean, line.high)), limit


def _phase_table(part: TimelineView) -> Table:
    """How long each phase was; requests at once count once."""
    spans = joined_spans(part.spans, 0)
    rows = [
        (PHASES.get(phase, phase), span(sum(end - start for start, end in found)), str(len(found)))
        for phase, found in spans.items()
    ]
    return Table("Phases", ("Phase", "In all", "Stretches"), rows)


def _mark_table(part: TimelineView) -> Table:
    rows = [
        (mark.device, mark.reason.replace("_", " "), span(sane(mark.start_s)), span(sane(mark.end_s)),
         "yes" if mark.harmful else "no")
        for mark in part.marks
    ]  # fmt: skip
    return Table("Reasons for low clocks", ("Device", "Reason", "From", "To", "Costs speed"), rows)
