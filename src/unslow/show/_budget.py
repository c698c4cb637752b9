"""Where the time goes, for a terminal: every measured phase with its parts and a bar."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from unslow.show._console import pair_grid
from unslow.show._shares import budget_title, folded, told_phases
from unslow.show._units import span
from unslow.think.budget import UNEXPLAINED
from unslow.think.report import BudgetPart

_SHADES = ("cyan", "magenta", "blue", "yellow", "green", "red")
_WIDEST = 60


def budget_parts(budget: Sequence[BudgetPart], *, width: int, everything: bool) -> list[RenderableType]:
    """One block for each phase; nothing of a phase of which no part is known."""
    blocks: list[RenderableType] = []
    for phase, parts in told_phases(budget):
        blocks += ["", _block(phase, parts if everything else folded(parts), bar=min(_WIDEST, width - 4))]
    return blocks


def _block(phase: str, parts: list[BudgetPart], bar: int) -> RenderableType:
    total = sum(p.seconds for p in parts) or 1.0
    line, legend, edge = Text("  "), pair_grid(), 0.0
    for part, shade in zip(parts, _SHADES * 3, strict=False):
        unexplained = part.part == UNEXPLAINED
        style = "dim" if unexplained else shade
        # edges are rounded, not lengths, so that the sum is exact
        start, edge = edge, edge + bar * part.seconds / total
        line.append(("░" if unexplained else "█") * (round(edge) - round(start)), style=style)
        mark = Text("  ░ " if unexplained else "  ■ ", style=style).append(part.part, style="default")
        legend.add_row(mark, f"{_time(part.seconds):>8}  {part.seconds / total:4.0%}")
    title = Text(budget_title(phase, total), style="bold")
    whole = [p for p in parts if p.seconds >= total and p.part != UNEXPLAINED]
    if whole:  # a bar of one part shows nothing
        return Text.assemble(title, (f": {whole[0].part}", "not bold"))
    return Group(title, line, legend)


def _time(seconds: float) -> str:
    return span(seconds) if seconds > 0 else "-"
