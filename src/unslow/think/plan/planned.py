"""What a search of settings came to, for one runtime: the front, the one to take, and why not the others."""

from typing import NamedTuple

from unslow.think.plan.report import OptionShown, RejectedShown, SearchedShown


class Planned(NamedTuple):
    """The front and the recommendation; without one, the reason and what would help."""

    options: tuple[OptionShown, ...]
    recommended: int | None
    rejected: tuple[RejectedShown, ...]
    searched: SearchedShown
    notes: tuple[str, ...] = ()
    reason: str = ""
    hint: str = ""
