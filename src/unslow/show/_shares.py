"""The shares of a measured time that are worth showing: the same in a terminal and on the page."""

from collections.abc import Sequence
from itertools import groupby

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
_LITTLE = 0.01
"""A part that takes less is counted with its like."""


def budget_title(phase: str, seconds: float) -> str:
    """What a phase is, with its time."""
    return _TITLES.get(phase, "Where {time} go").format(time=span(seconds))


_NOTHING = 1e-6
"""Of a phase: what takes less is not worth a line, such as what is left unexplained of a time that is explained."""


def told_phases(budget: Sequence[BudgetPart]) -> list[tuple[str, list[BudgetPart]]]:
    """Every phase with its parts; nothing of a phase of which no part is known."""
    phases = [(phase, _worth_a_line(list(parts))) for phase, parts in groupby(budget, key=lambda part: part.phase)]
    return [(phase, parts) for phase, parts in phases if any(p.part != UNEXPLAINED for p in parts)]


def _worth_a_line(parts: list[BudgetPart]) -> list[BudgetPart]:
    total = sum(p.seconds for p in parts)
    return [p for p in parts if p.seconds > _NOTHING * total]


def folded(parts: list[BudgetPart]) -> list[BudgetPart]:
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
