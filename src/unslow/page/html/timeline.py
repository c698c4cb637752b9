"""The picture of a run over time: phases, reasons for low clocks, then one row for each quantity, all on one axis."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from statistics import median

from unslow.page.html import figure, svg
from unslow.page.html.markup import Markup
from unslow.page.view import PhaseSpan, ThrottleMark, TimelineView, Track
from unslow.show.units import label as label_of
from unslow.show.units import span

_TALL = ("clock_hz", "power_w", "vram_used_bytes", "temperature_c", "busy")
"""First and taller: what tells most of a slow GPU."""
MOST_ROWS, MOST_LINES = 14, 64
SEVERAL = 3  # So many lines can be told apart by colour and dashes; of more, all are faint but for one that differs
_DIFFERS = 0.12  # Of the height of a row: a mean so far from the middle of the others is seen at a glance
_FAR = 50  # A limit that is so many times what was seen would press all lines to the foot
_ROOM = 1.06  # Above the highest value
_SAME = 1e-9  # Of a value: what differs by less is the same
_DEGREES = 40  # At least, so that a degree more or less looks small
PHASES = ("load", "queue", "prefill", "decode", "idle")  # In the order of a request; others come after
MOST_LANES, MOST_SPANS = 8, 2000
_HIGH, _GAP = 12.0, 4.0
_THINNEST = 0.8  # A short phase is still seen
_CLOSE = 0.6  # Units: what lies closer together is one stretch
MOST_COLUMNS = {"wide": 800, "middle": 300, "narrow": 200}
"""About one for each unit of width; of more, every second or third is drawn, and the table has the extremes of all."""
_LEFT = {"wide": 156.0, "middle": 132.0, "narrow": 56.0}
_RIGHT = {"wide": 104.0, "middle": 98.0, "narrow": 6.0}  # Room for words beside the rows; on a phone they stand above
_HOUR_S, _MINUTE_S = 7200, 180  # From there on the axis counts in hours, or in minutes


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
    unit: figure.Quantity
    odd: frozenset[int]  # Which of many devices differ from the others, by place

    @property
    def are_few(self) -> bool:
        return len(self.lines) <= SEVERAL


def render_timeline(part: TimelineView, number: int) -> Markup:
    """The sentence, the rows, and the numbers of each."""
    rows = rows_of(part.tracks)
    phases = [
        (phase, span(sum(end - start for start, end in found)), str(len(found)))
        for phase, found in joined_spans(part.spans, 0).items()  # requests at once count once
    ]
    marks = [
        (mark.device, mark.reason.replace("_", " "), span(svg.clamp(mark.start_s)), span(svg.clamp(mark.end_s)),
         "yes" if mark.harmful else "no")
        for mark in part.marks
    ]  # fmt: skip
    columns = ("Quantity", "Device", "Min", "Mean", "Max", "Limit")
    tables = [
        figure.Table("Over the whole run", columns, [*map(_track_row, part.tracks)]),
        figure.Table("Phases", ("Phase", "Total", "Count"), phases),
        figure.Table("Reasons for low clocks", ("Device", "Reason", "From", "To", "Costs speed"), marks),
    ]
    draw = partial(_draw, part=part, rows=rows)
    few = max((row.lines for row in rows if row.are_few), key=len, default=())
    signs = [Markup(f'<path d="M0,6L24,6" class="line series-{place + 1}"/>') for place in range(len(few))]
    keys = [figure.Key(sign, line.device) for sign, line in zip(signs, few, strict=True)] if len(few) > 1 else []
    if any(track.limit for track in part.tracks):
        keys.append(figure.Key(Markup('<path d="M0,6L24,6" class="limit"/>'), "limit"))
    for harmful, words in ((True, "throttled, costs speed"), (False, "low clocks at no cost")):
        if any(mark.harmful == harmful for mark in part.marks):
            name = "harmful" if harmful else "harmless"
            lines = f'<path d="M0,12L12,0M6,12L18,0M12,12L24,0" class="hatch-{name}"/>'
            sign = f'<rect x="0" y="0" width="24" height="12" class="throttle {name}"/>{lines}'
            keys.append(figure.Key(Markup(sign), words))
    return figure.render_figure(f"timeline-{number}", "Devices over time", part.summary, draw, keys, tables)


def _track_row(track: Track) -> tuple[str, ...]:
    words, line = track.label or label_of(track.name), track_line(track)
    if line is None:
        return words, track.device, "-", "-", "-", "-"
    unit = figure.quantity(track.name, max(line.high, svg.clamp(track.limit or 0)))
    limit = "-" if track.limit is None else unit.with_unit(track.limit)
    return words, track.device, *(unit.with_unit(value) for value in (line.low, line.mean, line.high)), limit


def _draw(drawing: svg.Drawing, part: TimelineView, rows: Sequence[Row]) -> None:
    ends = [svg.clamp(s) for s in (*part.times_s, *(s.end_s for s in part.spans), *(m.end_s for m in part.marks))]
    end_s = max(ends, default=0.0)
    if end_s <= 0:
        drawing.words(0, svg.LINE, "no samples", class_="quiet")
        drawing.height = 2 * svg.LINE
        return
    svg.hatch(drawing, "harmful", "hatch-harmful", 5)
    svg.hatch(drawing, "harmless", "hatch-harmless", 8)
    time = svg.Linear(0, end_s, _LEFT[drawing.format.name], drawing.format.width - _RIGHT[drawing.format.name])
    behind = len(drawing.parts)
    draw_lanes(drawing, time, part)
    draw_rows(drawing, time, part, rows)
    # The axis at the foot; its lines run through all rows, behind what is drawn already
    by, unit = (3600, "h") if end_s > _HOUR_S else (60, "min") if end_s > _MINUTE_S else (1, "s")
    area = svg.Box(time.start, 0, time.end, drawing.height)
    marks = svg.ticks(0, end_s, drawing.format.ticks, of_a_clock=True)
    drawn, drawing.parts = drawing.parts[behind:], drawing.parts[:behind]
    drawing.height = figure.foot_axis(
        drawing, area, time.at, marks, lambda tick: figure.short_number(tick / by), f"time, {unit}"
    )
    drawing.parts += drawn


def rows_of(tracks: Sequence[Track]) -> list[Row]:
    """Tracks by quantity, the telling ones first; what was nothing all the time is only in the table."""
    groups: dict[str, list[tuple[Track, Line]]] = {name: [] for name in _TALL}
    for track in tracks:
        line = track_line(track)
        if line and (track.name in _TALL or line.low or line.high):
            groups.setdefault(track.name, []).append((track, line))
    return [_row(name, found[:MOST_LINES]) for name, found in groups.items() if found][:MOST_ROWS]


def _row(name: str, found: Sequence[tuple[Track, Line]]) -> Row:
    lines = tuple(line for _, line in found)
    low, high = min(line.low for line in lines), max(line.high for line in lines)
    limits = (line.limit for line in lines if line.limit is not None)
    limit = max((svg.clamp(one) for one in limits if 0 < one <= _FAR * max(high, 0.0)), default=None)
    unit = figure.quantity(name, max(high, limit or 0.0))
    foot, head = _ends(unit, low, high, limit)
    odd = set()
    if len(lines) > SEVERAL:
        middle = median(line.mean for line in lines)
        usual = 3 * median(abs(line.mean - middle) for line in lines)
        far = max(_DIFFERS * (head - foot), usual)
        odd = {place for place, line in enumerate(lines) if abs(line.mean - middle) > far}
    label = found[0][0].label or label_of(name)
    return Row(name, label, lines, foot, head, None if unit.unit == "%" else limit, unit, frozenset(odd))


def _ends(unit: figure.Quantity, low: float, high: float, limit: float | None) -> tuple[float, float]:
    most = max(high, limit or 0.0)
    if unit.unit == "%" and most <= 1:
        return min(0.0, low), 1.0
    if unit.unit == "°C":
        foot = min(low, most - _DEGREES) - 2
        return foot, foot + max(most - foot + 3, _DEGREES, abs(foot) * _SAME)
    foot = min(0.0, low)
    high_end = foot + (most - foot) * _ROOM
    return foot, high_end if high_end - foot > abs(foot) * _SAME + svg.LEAST else foot + max(1.0, abs(foot))


def track_line(track: Track) -> Line | None:
    """The track, if it has a single value."""
    known = [value for value in track.values if value is not None]
    if not known:
        return None
    values: Sequence[float | None] = track.values
    if not (isfinite(sum(known)) and max(known) <= svg.MOST and min(known) >= -svg.MOST):
        values = [None if value is None else svg.clamp(value) for value in values]
        known = [value for value in values if value is not None]
    return Line(track.device, values, min(known), max(known), sum(known) / len(known), known[-1], track.limit)


def draw_lanes(drawing: svg.Drawing, time: svg.Linear, part: TimelineView) -> None:
    """A lane for each phase, so that requests at once don't hide each other, then one for each reason."""
    drawing.height = 2.0
    close_s = _CLOSE / max(1.0, time.end - time.start) * time.high
    for phase, found in list(joined_spans(part.spans[:MOST_SPANS], close_s).items())[:MOST_LANES]:
        top = drawing.height
        drawing.words(time.start - 8, top + _HIGH - 2, svg.fit_text(phase, time.start - 8), "end")
        _lane(drawing, time, top, found, f"phase phase-{phase}" if phase in PHASES else "phase", phase)
    reasons: dict[tuple[bool, str], list[ThrottleMark]] = {}
    for mark in part.marks:
        reasons.setdefault((not mark.harmful, mark.reason), []).append(mark)
    for key in sorted(reasons)[:MOST_LANES]:  # those that cost speed first
        _reason(drawing, time, reasons[key])
    drawing.height += _GAP


def _lane(
    drawing: svg.Drawing,
    time: svg.Linear,
    top: float,
    stretches: Sequence[tuple[float, float]],
    class_: str,
    said: str,
    fill: str = "",
) -> None:
    drawing.line(time.start, top + _HIGH, time.end, top + _HIGH, "grid")
    for start, end in stretches:
        left = min(time.at(start), time.end - _THINNEST)
        area = svg.Box(left, top, max(time.at(end), left + _THINNEST), top + _HIGH)
        when = f"{span(max(0.0, end - start))} starting at {span(max(0.0, start))}"
        drawing.box(area, class_, f"{said}: {when}", fill)
    drawing.height = top + _HIGH + _GAP


def joined_spans(spans: Iterable[PhaseSpan], close_s: float) -> dict[str, list[tuple[float, float]]]:
    """Stretches by phase, in order, those that touch as one."""
    found: dict[str, list[tuple[float, float]]] = {phase: [] for phase in PHASES}
    for one in sorted(spans, key=lambda one: one.start_s):
        stretches = found.setdefault(one.phase, [])
        start, end = svg.clamp(one.start_s), svg.clamp(one.end_s)
        if stretches and start - stretches[-1][1] <= close_s:
            stretches[-1] = stretches[-1][0], max(stretches[-1][1], end)
        else:
            stretches.append((start, end))
    return {phase: stretches for phase, stretches in found.items() if stretches}


def _reason(drawing: svg.Drawing, time: svg.Linear, marks: Sequence[ThrottleMark]) -> None:
    bold = marks[0].harmful
    name = "harmful" if bold else "harmless"
    # `GPU 3` of `GPU 3: NVIDIA H100`: of many devices the number tells them apart
    devices = ", ".join(dict.fromkeys(mark.device.partition(": ")[0] for mark in marks))
    said = f"{marks[0].reason.replace('_', ' ')}{', costs speed' if bold else ''}: {devices}"
    stretches = joined_spans((PhaseSpan(phase="", start_s=m.start_s, end_s=m.end_s) for m in marks), 0)[""]
    room = svg.width(said, bold=bold) + 10
    first, last = time.at(stretches[0][0]), time.at(stretches[-1][1])
    beside = first - room if first - room >= 0 else last + 10 if last + room <= drawing.format.width else None
    top = drawing.height + (svg.LINE + 2 if beside is None else 2)
    words = svg.fit_text(said, drawing.format.width, bold=bold)
    drawing.words(0 if beside is None else beside, top + (-3 if beside is None else 10), words, class_=f"{name}-words")
    _lane(drawing, time, top, stretches, f"throttle {name}", said, name)


def draw_rows(drawing: svg.Drawing, time: svg.Linear, part: TimelineView, rows: Sequence[Row]) -> None:
    """All rows one below the other."""
    every = max(1, -(-len(part.times_s) // MOST_COLUMNS[drawing.format.name]))
    places = [svg.number(time.at(second)) for second in part.times_s[::every]]
    for row in rows:
        top = drawing.height + (svg.LINE + 5 if drawing.format.is_narrow else 4)
        few, high = (3, 54.0) if row.name in _TALL else (2, 32.0)
        area = svg.Box(time.start, top, time.end, top + high)
        for mark in part.marks if row.name == "clock_hz" else ():  # behind the clocks: when they were held back
            if mark.harmful and mark.end_s > mark.start_s:
                drawing.box(svg.Box(time.at(mark.start_s), area.top, time.at(mark.end_s), area.bottom), "held-back")
        up = svg.Linear(row.low, row.high, area.bottom, area.top)
        # Few numbers at the left, but two at least
        tries = (figure.round_ticks(row.low, row.high, most, row.unit) for most in range(few, few + 4))
        marks = next((found for found in tries if len(found) > 1), (row.low, row.high))
        figure.side_axis(drawing, area, up.at, marks, row.unit.number)
        if row.limit is not None:
            drawing.line(area.left, up.at(row.limit), area.right, up.at(row.limit), "limit")
        for place, line in sorted(enumerate(row.lines), key=lambda one: one[0] in row.odd):
            if shape := _shape(line.values[::every], row, area, places):
                class_ = f"series-{place + 1}" if row.are_few else "odd" if place in row.odd else "other"
                said = f"{line.device}: {row.label} {row.unit.number(line.low)} to {row.unit.with_unit(line.high)}"
                drawing.path(shape, f"line {class_}", said)
        room, title = _names(drawing, row, area, up), f"{row.label}, {row.unit.unit}" if row.unit.unit else row.label
        if drawing.format.is_narrow:
            drawing.words(0, area.top - 8, svg.fit_text(title, room))
        else:
            for place, words in enumerate(svg.wrap_pieces(title.split(), room, " ")[:3]):
                drawing.words(0, area.top + 10 + place * svg.LINE, words)
        drawing.height = area.bottom + 12.0


def _names(drawing: svg.Drawing, row: Row, area: svg.Box, up: svg.Linear) -> float:
    """Outliers and the limit: beside the row, or above it on a phone. Returns the room for its title."""
    said: list[tuple[float, str, str]] = []  # height, words and class: of many lines, which is which
    if not row.are_few:  # of few the legend tells
        odd = [row.lines[place] for place in sorted(row.odd)[:SEVERAL]]
        said += [(up.at(line.last), line.device.partition(": ")[0], "odd-words") for line in odd]
        if others := [line.last for place, line in enumerate(row.lines) if place not in row.odd]:
            alike = f"{len(others)} others" if row.odd else f"all {len(others)} similar"
            said.append((up.at(others[0]), alike, "quiet"))
    if row.limit is not None:
        said.append((up.at(row.limit), f"limit {row.unit.with_unit(row.limit)}", "quiet"))
    if drawing.format.is_narrow:
        # From the right end on, as many as there is room for beside the title
        right = drawing.format.width
        for _, words, class_ in said:
            wide = svg.width(words, bold=class_ in svg.BOLD_WORDS)
            if right - wide > drawing.format.width * 0.4:
                drawing.words(right, area.top - 8, words, "end", class_)
                right -= wide + 8
        return right
    room = svg.LabelSpace(svg.Box(area.right, area.top - 10, drawing.format.width, area.bottom + 10))
    for y, words, class_ in said:
        shown = svg.fit_text(words, drawing.format.width - area.right - 8, bold=class_ in svg.BOLD_WORDS)
        rows = (y - svg.LINE / 2 + shift * svg.LINE for shift in (0, -1, 1, -2, 2, -3))
        if spot := room.first_free(svg.Box(area.right + 6, row, drawing.format.width, row + svg.LINE) for row in rows):
            drawing.words(spot.left, spot.bottom - 3, shown, class_=class_)
    return area.left - 44


def _shape(values: Sequence[float | None], row: Row, area: svg.Box, places: Sequence[str]) -> str:
    """The line, broken where samples are missing; inlined because it runs thousands of times."""
    low, bottom = row.low, area.bottom
    steep = (bottom - area.top) / (row.high - low)
    runs: list[list[str]] = [[]]
    for x, value in zip(places, values, strict=False):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{x},{bottom - (value - low) * steep:.1f}")
    # One sample alone is a dot
    return "".join(f"M{run[0]}h0" if len(run) == 1 else "M" + "L".join(run) for run in runs if run)
