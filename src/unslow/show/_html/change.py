"""Before and after: each figure of both with the interval of the speed-up."""

from unslow.show._html.markup import NOTHING, Markup, joined, sentence, tag
from unslow.show._html.words import CHANGES, Sign, amount, badge, metric_name
from unslow.show._labels import label
from unslow.think.report import Range
from unslow.think.view.report import ChangeRow, ChangeView

_ENDLESS = 1e6
"""A speed-up beyond this has no upper end: it was measured once."""
_HEADS = ("Figure", "Both", "Before", "After", "Times as fast", "Verdict")


def render(change: ChangeView, number: int) -> str:  # noqa: ARG001 (the same call for all panels)
    """The verdict, the figures, and what differs."""
    head = tag("p", badge(sign_of(change.verdict)), " ", sentence(change.because))
    table = tag("table", _head(), tag("tbody", *map(_row, change.rows)), class_="figures")
    changes = (
        tag("ul", *(tag("li", worded(said)) for said in change.changes), class_="changes")
        if change.changes
        else NOTHING
    )
    answers = tag("p", sentence(change.answers)) if change.answers else NOTHING
    source = tag("p", f"From {change.source}.", class_="quiet")
    return tag("figure", head, tag("div", table, class_="wide"), answers, changes, source)


def worded(said: str) -> str:
    """What differs; a setting that is named as in the snapshot, by the name that a person gives it."""
    name, colon, values = said.partition(": ")
    return f"{label(name)}: {values}" if colon and "." in name and " " not in name else said


def speedup_ends(value: Range) -> str:
    """Between which ends a speed-up lies, in words."""
    return f"{value.low:.3f} to {value.high:.3f}" if value.high < _ENDLESS else "one round only"


def sign_of(verdict: str) -> Sign:
    """A verdict as a person sees it, whatever a later version calls it."""
    return CHANGES.get(verdict) or Sign(verdict.replace("_", " "), "•", "plain")


def _head() -> Markup:
    return tag("thead", tag("tr", *(tag("th", name, scope="col") for name in _HEADS)))


def _row(row: ChangeRow) -> Markup:
    before, after = (_both(row.metric, side) for side in (row.before, row.after))
    cells = [tag("td", cell) for cell in (before, after, _speedup(row.speedup), badge(sign_of(row.verdict)))]
    name = tag("th", metric_name(row.metric), scope="row")
    return tag("tr", name, tag("td", _bars(row), class_="both"), *cells)


def _bars(row: ChangeRow) -> Markup:
    """Both as bars from zero, the earlier above, with their intervals."""
    top = max(row.before.high, row.after.high, 1e-12)
    shapes = [_bar(side, name, place, top) for place, (name, side) in enumerate(_sides(row))]
    said = f"before {amount(row.metric, row.before.mid)}, after {amount(row.metric, row.after.mid)}"
    return tag("svg", *shapes, class_="bar", width="100%", height="26", role="img", aria_label=said)


def _sides(row: ChangeRow) -> tuple[tuple[str, Range], tuple[str, Range]]:
    return ("before", row.before), ("after", row.after)


def _bar(side: Range, name: str, place: int, top: float) -> Markup:
    low, mid, high = (f"{100 * max(0.0, value) / top:.3f}%" for value in (side.low, side.mid, side.high))
    y = 13 * place
    bar = tag("rect", x="0", y=str(y + 1), width=mid, height="10", class_=f"bar-{name}")
    whisker = tag("line", x1=low, x2=high, y1=str(y + 6), y2=str(y + 6), class_="whisker")
    return joined([bar, whisker if side.low != side.high else NOTHING])


def _both(metric: str, side: Range) -> Markup:
    ends = f"{amount(metric, side.low)} to {amount(metric, side.high)}" if side.low != side.high else ""
    return joined([tag("b", amount(metric, side.mid)), tag("small", ends) if ends else NOTHING])


def _speedup(value: Range) -> Markup:
    return joined([tag("b", f"×{value.mid:.2f}"), tag("small", speedup_ends(value))])
