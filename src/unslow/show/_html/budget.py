"""Where the time of a token goes: a stacked bar for each phase, the unexplained among its parts."""

from collections.abc import Iterator, Sequence

from unslow.show._html.markup import NOTHING, Markup, joined, tag
from unslow.show._shares import budget_title, folded, told_phases
from unslow.show._units import span
from unslow.think.budget import UNEXPLAINED
from unslow.think.report import BudgetPart, Finding

_SERIES = 6
_ROOM_FOR_A_NUMBER = 5.0
"""Percent of the width: what a digit takes on a narrow screen."""
_HEIGHT = 34


def budgets(budget: Sequence[BudgetPart], findings: Sequence[Finding]) -> Markup:
    """A block for each phase of which parts are known."""
    lost = {finding.title.lower() for finding in findings}
    return joined(_block(phase, folded(parts), lost) for phase, parts in told_phases(budget))


def _block(phase: str, parts: list[BudgetPart], lost: set[str]) -> Markup:
    total = sum(part.seconds for part in parts) or 1.0
    looks = list(_looks(parts, lost))
    title = tag("h4", budget_title(phase, total))
    whole = next((p for p in parts if p.seconds >= total and p.part != UNEXPLAINED), None)
    if whole:  # a bar of one part shows nothing
        return tag("div", title, tag("p", f"All of it: {whole.part}."), class_="budget")
    rows = [_row(number, part, look, total) for number, (part, look) in enumerate(zip(parts, looks, strict=True), 1)]
    return tag("div", title, _bar(parts, looks, total), tag("ol", *rows, class_="shares"), class_="budget")


def _looks(parts: list[BudgetPart], lost: set[str]) -> Iterator[str]:
    """The class of each part: what a found cause takes and what nobody can explain look like nothing else."""
    series = 0
    for part in parts:
        if part.part == UNEXPLAINED:
            yield "unexplained"
        elif part.part.lower() in lost:
            yield "lost"
        else:
            yield f"series-{series % _SERIES + 1}"
            series += 1


def _bar(parts: list[BudgetPart], looks: list[str], total: float) -> Markup:
    shapes, edge = [], 0.0
    for number, (part, look) in enumerate(zip(parts, looks, strict=True), 1):
        width = 100 * part.seconds / total
        if width > 0:
            shapes.append(_segment(number, part, look, edge, width))
        edge += width
    said = "; ".join(f"{part.part} {part.seconds / total:.0%}" for part in parts)
    return tag("svg", *shapes, class_="bar", width="100%", height=str(_HEIGHT), role="img", aria_label=said)


def _segment(number: int, part: BudgetPart, look: str, edge: float, width: float) -> Markup:
    box = {"x": f"{edge:.3f}%", "y": "0", "width": f"{width:.3f}%", "height": str(_HEIGHT)}
    hatch = tag("rect", **box, fill="url(#hatch)") if look in ("unexplained", "lost") else NOTHING
    shows = width >= _ROOM_FOR_A_NUMBER
    label = tag("text", str(number), x=f"{edge + width / 2:.3f}%", y="22", text_anchor="middle") if shows else NOTHING
    name = tag("title", f"{part.part}: {span(part.seconds)}")
    return tag("g", name, tag("rect", **box, class_="fill"), hatch, label, class_=f"part {look}")


def _row(number: int, part: BudgetPart, look: str, total: float) -> Markup:
    took = span(part.seconds) if part.seconds > 0 else "-"
    mark = tag("span", str(number), class_=f"number {look}", aria_hidden="true")
    return tag(
        "li",
        mark,
        tag("span", part.part, class_="name"),
        tag("span", took, class_="value"),
        tag("span", f"{part.seconds / total:.0%}", class_="value share"),
    )
