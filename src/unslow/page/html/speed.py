"""How fast it is, where the time of a token goes, and what a change gave: bars and tables."""

from collections.abc import Iterator, Sequence
from math import isfinite

from unslow.page.html.markup import CHANGES, NOTHING, Markup, Sign, badge, join_markup, metric_name, sentence, tag
from unslow.page.html.svg import ticks
from unslow.page.view import ChangeRow, ChangeView, SpeedRow
from unslow.show.units import amount, budget_title, fold_small_parts, is_time, label, phase_parts, rate, span
from unslow.think.judge.pricing import UNEXPLAINED
from unslow.think.report import BudgetPart, Finding, Range

_DECODE = "decode_tokens_per_s"
_ROOM = 1.03  # Of the largest value: so that its mark does not stand on the edge
_THINNEST = 0.35  # Percent of the width: a bar that is nearly nothing can still be seen
_LAST_TICK = 0.94  # Of the width: the number of a later one would be cut
_FAR = 6.0  # Times as much as anything else: a ceiling beyond that would leave the rest of the bar a speck
_BAR = 30
_LITTLE = 0.02  # A share that needs a digit more
_ROOM_FOR_A_NUMBER = 5.0  # Percent of the width: what a digit takes on a narrow screen
_HEIGHT = 34
_ENDLESS = 1e6  # A speed-up beyond this has no upper end: it was measured once
_HEADS = ("Metric", "Comparison", "Before", "After", "Speedup", "Verdict")


def speeds(rows: Sequence[SpeedRow]) -> Markup:
    """Every figure with its bar."""
    if not rows:
        return tag("p", "No speed measured.", class_="quiet")
    bullets = []
    for row in rows:
        better = tag("span", "lower is better", class_="quiet") if is_time(row.metric) else NOTHING
        top = _top(row)
        bar = _speed_bar(row, top) if top > 0 else NOTHING
        legend = tag("ul", *_legend(row, top), class_="legend")
        bullets.append(tag("div", tag("h4", metric_name(row.metric), " ", better), bar, legend, class_="bullet"))
    return tag("div", *bullets, class_="bullets")


def _top(row: SpeedRow) -> float:
    """The end of the bar: the ceiling, unless it would make all else invisible; 0 for no bar."""
    highs = [reach.high for reach in (row.as_configured, row.achievable) if reach]
    others = [value for value in (row.measured, row.goal, *highs) if value and isfinite(value)]
    near = max(others, default=0.0)
    shows_ceiling = row.ceiling is not None and row.ceiling <= _FAR * near
    if len(others) + shows_ceiling <= 1:  # a bar that is full of one value would say that all is reached
        return 0.0
    return _ROOM * max(near, row.ceiling if shows_ceiling and row.ceiling else 0.0)


def _speed_bar(row: SpeedRow, top: float) -> Markup:
    parts = [tag("rect", x="0", y="4", width="100%", height="22", class_="track")]
    for reach, name in ((row.as_configured, "now"), (row.achievable, "best")):
        if reach:
            low, high = _percent(reach.low, top), _percent(reach.high, top)
            box = {"x": f"{low:.3f}%", "y": "4", "width": f"{max(high - low, _THINNEST):.3f}%", "height": "22"}
            parts.append(tag("rect", **box, class_=f"band-{name}"))
    if row.achievable:
        parts.append(_line(row.achievable.mid, top, "mid", 4, 26))
    if row.measured is not None:
        width = max(_percent(row.measured, top), _THINNEST)
        parts.append(tag("rect", x="0", y="11", width=f"{width:.3f}%", height="8", class_="bar-measured"))
    marks = ((row.ceiling, "ceiling"), (row.goal, "goal"))
    parts += [_line(value, top, name, 0, _BAR) for value, name in marks if value is not None and value <= top]
    for tick in (tick for tick in ticks(0, top, 5) if tick <= _LAST_TICK * top):
        x, shown = f"{_percent(tick, top):.3f}%", span(tick) if is_time(row.metric) and tick else f"{tick:,.6g}"
        parts.append(tag("line", x1=x, x2=x, y1="26", y2="30", class_="tick"))
        parts.append(tag("text", shown, x=x, y=str(_BAR + 12), text_anchor="start" if tick == 0 else "middle"))
    measured = f"{amount(row.metric, row.measured)} measured" if row.measured is not None else "not measured"
    best = f", {_reach(row.metric, row.achievable)} achievable" if row.achievable else ""
    ceiling = f", ceiling {amount(row.metric, row.ceiling)}" if row.ceiling is not None else ""
    said = f"{metric_name(row.metric)}: {measured}{best}{ceiling}"
    return tag("svg", *parts, class_="bar", width="100%", height=str(_BAR + 16), role="img", aria_label=said)


def _line(value: float, top: float, name: str, start: int, end: int) -> Markup:
    x = f"{_percent(value, top):.3f}%"
    return tag("line", x1=x, x2=x, y1=str(start), y2=str(end), class_=f"mark-{name}")


def _percent(value: float, top: float) -> float:
    return 100 * max(0.0, value) / top


def _legend(row: SpeedRow, top: float) -> Iterator[Markup]:
    if row.measured is not None:
        yield _key("measured", "measured", tag("strong", amount(row.metric, row.measured)))
    same = row.as_configured == row.achievable
    if row.as_configured and not same:
        yield _key("now", "expected with these settings", _reach(row.metric, row.as_configured))
    if row.achievable:
        yield _key("best", "achievable", _reach(row.metric, row.achievable))
    if row.ceiling is not None:
        far = ", off the scale" if 0 < top < row.ceiling else ""
        name = "bandwidth ceiling" if row.metric == _DECODE else "compute ceiling"
        share = row.measured / row.ceiling if row.measured is not None and row.ceiling else None
        reached = f", {share:.{0 if share >= _LITTLE else 1}%} reached" if share is not None else ""
        yield _key("ceiling", name, f"{amount(row.metric, row.ceiling)}{reached}{far}")
    if row.goal is not None:
        yield _key("goal", "your goal", amount(row.metric, row.goal))


def _key(name: str, label: str, value: str) -> Markup:
    return tag("li", tag("span", class_=f"key key-{name}", aria_hidden="true"), f"{label} ", tag("b", value))


def _reach(metric: str, reach: Range) -> str:
    low, mid, high = (span(v) if is_time(metric) else rate(v) for v in (reach.low, reach.mid, reach.high))
    unit = "" if is_time(metric) else " tok/s"
    return f"{low} to {high}{unit}, about {mid}"


def budgets(budget: Sequence[BudgetPart], findings: Sequence[Finding]) -> Markup:
    """A block for each phase of which parts are known."""
    lost = {finding.title.lower() for finding in findings}
    return join_markup(_block(phase, fold_small_parts(parts), lost) for phase, parts in phase_parts(budget))


def _block(phase: str, parts: list[BudgetPart], lost: set[str]) -> Markup:
    total = sum(part.seconds for part in parts) or 1.0
    title = tag("h4", budget_title(phase, total))
    whole = next((p for p in parts if p.seconds >= total and p.part != UNEXPLAINED), None)
    if whole:  # a bar of one part shows nothing
        return tag("div", title, tag("p", f"All of the time: {whole.part}."), class_="budget")
    rows, shapes, edge, series = [], [], 0.0, 0
    for number, part in enumerate(parts, 1):
        # What a found cause takes, and what is unexplained, look like nothing else
        look = "unexplained" if part.part == UNEXPLAINED else "lost" if part.part.lower() in lost else ""
        if not look:
            look, series = f"series-{series % 6 + 1}", series + 1
        width = 100 * part.seconds / total
        if width > 0:
            box = {"x": f"{edge:.3f}%", "y": "0", "width": f"{width:.3f}%", "height": str(_HEIGHT)}
            hatch = tag("rect", **box, fill="url(#hatch)") if look in ("unexplained", "lost") else NOTHING
            label = tag("text", str(number), x=f"{edge + width / 2:.3f}%", y="22", text_anchor="middle")
            name = tag("title", f"{part.part}: {span(part.seconds)}")
            inside = (tag("rect", **box, class_="fill"), hatch, label if width >= _ROOM_FOR_A_NUMBER else NOTHING)
            shapes.append(tag("g", name, *inside, class_=f"part {look}"))
        edge += width
        mark = tag("span", str(number), class_=f"number {look}", aria_hidden="true")
        took = tag("span", span(part.seconds) if part.seconds > 0 else "-", class_="value")
        share = tag("span", f"{part.seconds / total:.0%}", class_="value share")
        rows.append(tag("li", mark, tag("span", part.part, class_="name"), took, share))
    said = "; ".join(f"{part.part} {part.seconds / total:.0%}" for part in parts)
    bar = tag("svg", *shapes, class_="bar", width="100%", height=str(_HEIGHT), role="img", aria_label=said)
    return tag("div", title, bar, tag("ol", *rows, class_="shares"), class_="budget")


def render_change(change: ChangeView, number: int) -> Markup:  # noqa: ARG001 (the same call for all panels)
    """The verdict, the figures, and what differs."""
    head = tag("p", badge(sign_of(change.verdict)), " ", sentence(change.because))
    table = tag(
        "table",
        tag("thead", tag("tr", *(tag("th", name, scope="col") for name in _HEADS))),
        tag("tbody", *map(_change_row, change.rows)),
        class_="figures",
    )
    differs = [tag("li", setting_words(said)) for said in change.changes]
    changes = tag("ul", *differs, class_="changes") if differs else NOTHING
    answers = tag("p", sentence(change.answers)) if change.answers else NOTHING
    source = tag("p", f"From {change.source}.", class_="quiet")
    return tag("figure", head, tag("div", table, class_="wide"), answers, changes, source)


def _change_row(row: ChangeRow) -> Markup:
    top = max(row.before.high, row.after.high, 1e-12)
    shapes, cells = [], []
    for y, name, side in ((0, "before", row.before), (13, "after", row.after)):
        low, mid, high = (f"{_percent(value, top):.3f}%" for value in (side.low, side.mid, side.high))
        shapes.append(tag("rect", x="0", y=str(y + 1), width=mid, height="10", class_=f"bar-{name}"))
        numbers = [tag("b", amount(row.metric, side.mid))]
        if side.low != side.high:
            shapes.append(tag("line", x1=low, x2=high, y1=str(y + 6), y2=str(y + 6), class_="whisker"))
            numbers.append(tag("small", f"{amount(row.metric, side.low)} to {amount(row.metric, side.high)}"))
        cells.append(tag("td", *numbers))
    cells.append(tag("td", tag("b", f"×{row.speedup.mid:.2f}"), tag("small", speedup_ends(row.speedup))))
    cells.append(tag("td", badge(sign_of(row.verdict))))
    said = f"before {amount(row.metric, row.before.mid)}, after {amount(row.metric, row.after.mid)}"
    bars = tag("svg", *shapes, class_="bar", width="100%", height="26", role="img", aria_label=said)
    return tag("tr", tag("th", metric_name(row.metric), scope="row"), tag("td", bars, class_="both"), *cells)


def setting_words(said: str) -> str:
    """What differs; a setting that is named as in the snapshot, by the name that a person gives it."""
    name, colon, values = said.partition(": ")
    return f"{label(name)}: {values}" if colon and "." in name and " " not in name else said


def speedup_ends(value: Range) -> str:
    """The interval of a speedup in words."""
    return f"{value.low:.3f} to {value.high:.3f}" if value.high < _ENDLESS else "single round"


def sign_of(verdict: str) -> Sign:
    """A verdict as a person sees it, whatever a later version calls it."""
    return CHANGES.get(verdict) or Sign(verdict.replace("_", " "), "•", "plain")
