"""Whose curve it is: the series of a curve have the labels of a target, and so has every member."""

from collections.abc import Sequence

from unslow.fleet.discover import shown_label
from unslow.fleet.member import Member

_TELLING = (
    ("cluster", "namespace", "pod", "job", "instance"),
    ("cluster", "namespace", "pod", "instance"),
    ("namespace", "pod", "instance"),
    ("job", "instance"),
    ("instance",),
)
"""Labels that tell a target from the others, the most telling first: those of fewer only where they are enough."""


class Whose:
    """Finds the member that a curve belongs to."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.strangers: set[tuple[str, ...]] = set()
        """Targets whose curves belong to nobody, or to more than one."""
        self._by_labels: list[dict[tuple[str, ...], str]] = [{} for _ in _TELLING]
        for names, known in zip(_TELLING, self._by_labels, strict=True):
            for member in members:
                told = _told(member.labels, names)
                known[told] = "" if told in known else member.key  # of two alike, neither is found this way

    def key(self, labels: dict[str, str]) -> str:
        """The key of the member; empty where it is nobody's, which is kept."""
        shown = {name: shown_label(labels[name]) for name in _TELLING[0] if labels.get(name)}
        for names, known in zip(_TELLING, self._by_labels, strict=True):
            if any(name in shown for name in names) and (key := known.get(_told(shown, names))):
                return key
        self.strangers.add(_told(shown, _TELLING[0]))
        return ""


def _told(labels: dict[str, str], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(labels.get(name, "") for name in names)
