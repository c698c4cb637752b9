"""Where the time goes, for a terminal: every measured phase with its parts and a bar."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from unslow.show._tables import pair_grid
from unslow.show._units import span
from unslow.think.budget import UNEXPLAINED
from unslow.think.report import BudgetPart

_TITLES = {
    "decode": "Where the {time} of a token go",
    "prefill": "Where the {time} of each token of a prompt go",
    "client": "Where {time} of every request go outside the server",
    "queue": "Where {time} of every request go in the queue",
    "load": "Where {time} of every request go with loading",
}
_SHADES = ("cyan", "magenta", "blue", "yellow", "green", "red")
_WIDEST = 60
_LITTLE = 0.01
"""A part that takes less is counted with its like."""


def budget_parts(budget: Sequence[BudgetPart], *, width: int, everything: bool) -> list[RenderableType]:
    """One block for each phase; nothing of a phase of which no part is known."""
    phases = [(phase, list(parts)) for phase, parts in groupby(budget, key=lambda part: part.phase)]
    told = [(phase, parts) for phase, parts in phases if any(p.part != UNEXPLAINED for p in parts) or len(phases) > 1]
    blocks: list[RenderableType] = []
    for phase, parts in told:
        blocks += ["", _block(phase, parts if everything else _folded(parts), bar=min(_WIDEST, width - 4))]
    return blocks


def _folded(parts: list[BudgetPart]) -> list[BudgetPart]:
    """The parts that matter, those that hardly take time as one."""
    total = sum(p.seconds for p in parts)
    small = [p for p in parts if p.seconds < _LITTLE * total and p.part != UNEXPLAINED]
    if len(small) < 2:  # noqa: PLR2004 (one is no crowd)
        return parts
    rest = BudgetPart(
        phase=parts[0].phase,
        part=f"{len(small)} smaller parts",
        seconds=sum(p.seconds for p in small),
        per=parts[0].per,
    )
    return [*(p for p in parts if p not in small and p.part != UNEXPLAINED), rest, *_unexplained(parts)]


def _unexplained(parts: list[BudgetPart]) -> list[BudgetPart]:
    return [p for p in parts if p.part == UNEXPLAINED]


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
    title = Text(_TITLES.get(phase, "Where {time} go").format(time=span(total)), style="bold")
    whole = [p for p in parts if p.seconds >= total and p.part != UNEXPLAINED]
    if whole:  # a bar of one part shows nothing
        return Text.assemble(title, (f": {whole[0].part}", "not bold"))
    return Group(title, line, legend)


def _time(seconds: float) -> str:
    return span(seconds) if seconds > 0 else "-"
