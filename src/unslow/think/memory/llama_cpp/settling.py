"""How few layers do for a layout, as the allocator's own gaps tell.

From the same gaps a layer of the same kind goes to the same gaps. So a few layers are laid out, and the steps from gaps
to gaps are written down; where those that were left out, step by step, end at the gaps that they begin with, they would
have changed nothing.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

_Steps: TypeAlias = dict[tuple[Hashable, Hashable], Hashable]
"""By the gaps before a layer and its kind: the gaps after it."""
_FIRST, _LAST = 4, 2
"""Layers at either end that are always laid out: as a rule gaps settle or alternate after two of them."""


def fewest(kinds: Sequence[Hashable]) -> list[int]:
    """Both ends, the first and the last of each kind, and each kind once after every other that it comes after.

    What layers share is so made by the same layer and given back after the same one as if all of them were there. An
    even number is left out at a time, for gaps may alternate.
    """
    kept = {*range(min(_FIRST, len(kinds))), *range(max(0, len(kinds) - _LAST), len(kinds)), *_last_ones(kinds)}
    seen: set[Hashable] = set()
    for layer, pair in enumerate(pairwise(kinds)):
        if pair not in seen:
            seen.add(pair)
            kept.update((layer, layer + 1))
    kept.update(before + 1 for before, after in pairwise(sorted(kept)) if (after - before) % 2 == 0)
    return sorted(kept)


def _last_ones(kinds: Sequence[Hashable]) -> set[int]:
    return set({kind: layer for layer, kind in enumerate(kinds)}.values())


class Settling:
    """The layers of one model that are laid out, more with each try that shows that they are too few."""

    def __init__(self, kinds: Sequence[Hashable]) -> None:
        self._kinds, self._different = kinds, _last_ones(kinds)
        self.kept = fewest(kinds)

    @property
    def is_worth_a_try(self) -> bool:
        """Whether it saves much to leave out so many."""
        return len(self.kept) <= _WORTH * len(self._kinds)

    def settles(self, states: Sequence[Hashable]) -> bool:
        """Whether those left out change nothing, by the gaps after each kept layer; else some of them are kept.

        Only steps of this very layout count: its size is that of the largest of them.
        """
        steps: _Steps = {}
        for n, layer in enumerate(self.kept):
            if n and layer not in self._different:  # the last of a kind gives back what only that kind reads
                steps.setdefault((states[n - 1], self._kinds[layer]), states[n])
        gaps = zip(pairwise(self.kept), states, strict=False)
        missing = {layer for (before, after), state in gaps for layer in self._missing(before, after, state, steps)}
        self.kept = sorted({*self.kept, *missing})
        return not missing

    def _missing(self, before: int, after: int, start: Hashable, steps: _Steps) -> Iterator[int]:
        """Of the layers between two: those after the last that ends at the gaps that the first one begins with."""
        state: Hashable = start
        back, reached = before, before
        for layer in range(before + 1, after):
            state, reached = steps.get((state, self._kinds[layer])), layer
            if state is None:
                reached = min(layer + _MORE, after - 1)
                break
            if state == start:
                back = layer
        yield from range(back + 1, reached + 1)


_MORE = 3
"""Layers that are laid out beyond one that goes where none went before: the next would as a rule."""
_WORTH = 0.5
"""Of all layers; with more of them a try that fails costs as much as it can save."""
