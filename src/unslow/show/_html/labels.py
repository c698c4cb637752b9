"""Words in a picture: how wide they are, how they are cut, and where they stand in nobody's way."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from unslow.show._clean import safe

FONT = 12.0
"""Units of the picture: `charts.css` says the same."""
BOLD = 1.13
"""How much wider bold letters are."""
_THIN, _BROAD = frozenset("iljtfrI.,:;'|!()[] -/·"), frozenset("mwMW@%GOQ—…")
_EAST_ASIAN = 0x2E80
"""From there on a letter is a square."""


def width(said: str, *, bold: bool = False) -> float:
    """About how wide it is, rather too wide: the fonts of systems differ by some percent."""
    return FONT * _letters(said) * (BOLD if bold else 1)


@lru_cache(2048)  # every picture is drawn twice, and most words stand in both
def _letters(said: str) -> float:
    return sum(map(_letter, said))


def _letter(letter: str) -> float:
    if letter in _THIN:
        return 0.36
    if letter in _BROAD:
        return 0.92
    if ord(letter) >= _EAST_ASIAN:
        return 1.05
    if letter.isdigit():
        return 0.64
    return 0.74 if letter.isupper() else 0.62


def fitted(said: str, room: float, *, bold: bool = False) -> str:
    """As much of it as there is room for."""
    said, room = " ".join(safe(said).split()), room / (BOLD if bold else 1)
    if width(said) <= room:
        return said
    used = width("…")
    for place, letter in enumerate(said):
        used += FONT * _letter(letter)
        if used > room:
            return f"{said[:place].rstrip()}…" if place else ""
    return said


def wrapped(pieces: Sequence[str], room: float, between: str = " · ") -> list[str]:
    """The pieces in as many lines as they need; one that is longer than a line is cut."""
    lines: list[str] = []
    for piece in (fitted(piece, room) for piece in pieces):
        longer = f"{lines[-1]}{between}{piece}" if lines else ""
        if lines and width(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(piece)
    return lines


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        """Whether the two share more than an edge."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def within(self, other: "Box") -> bool:
        """Whether nothing of it is outside the other."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.top >= other.top
            and self.bottom <= other.bottom
        )


@dataclass(slots=True)
class Room:
    """What of a picture is taken already."""

    whole: Box
    taken: list[Box] = field(default_factory=list)

    def take(self, box: Box) -> None:
        """Nothing else may stand there."""
        self.taken.append(box)

    def is_free(self, box: Box) -> bool:
        """Whether it is inside and nothing stands there."""
        return box.within(self.whole) and not any(box.meets(other) for other in self.taken)

    def first_free(self, places: Iterable[Box]) -> Box | None:
        """The first of these that is free, which is then taken."""
        for box in places:
            if self.is_free(box):
                self.take(box)
                return box
        return None


def around(x: float, y: float, wide: float, high: float, away: float) -> list[Box]:
    """Where a label may stand close to a point, the best first: right, left, below, above."""
    spots = []
    for far in (away, 2 * away):
        rows = (y - high / 2, y - high / 4, y - 3 * high / 4, y, y - high)
        spots += [Box(left, row, left + wide, row + high) for left in (x + far, x - far - wide) for row in rows]
        columns = (x - wide / 2, x - wide / 4, x - 3 * wide / 4, x, x - wide)
        spots += [Box(left, row, left + wide, row + high) for row in (y + far, y - high - far) for left in columns]
    return spots
