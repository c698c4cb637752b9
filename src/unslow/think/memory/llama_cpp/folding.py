"""How few of a model's layers are laid out: of many that are alike, until nothing changes any more."""

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from unslow.facts.model import Tensor
from unslow.think.memo import remembered
from unslow.think.memory.llama_cpp.attention import has_rope
from unslow.think.memory.llama_cpp.backends import UNUSUAL_TYPES
from unslow.think.memory.llama_cpp.hyperparameters import Hyper
from unslow.think.memory.llama_cpp.places import Places

_LONGEST_PERIOD = 12
_KEPT_PERIODS = 4
_CYCLE = 6  # the gaps alternate from layer to layer, or come back after three: only whole cycles can be left out
_FIRST, _LAST = 4, 2
"""Layers at either end that are always laid out: as a rule gaps settle or alternate after two of them."""
_MORE = 3  # layers that are laid out beyond one that goes where none went before: the next would as a rule
_WORTH = 0.5  # of all layers; with more of them a try that fails costs as much as it can save
_Steps: TypeAlias = dict[tuple[Hashable, Hashable], Hashable]
"""By the gaps before a layer and its kind: the gaps after it."""


def laid_out_layers(hyper: Hyper, places: Places) -> list[int]:
    """The layers to build, in order; the first and the last are always there.

    After a few equal layers the allocator finds the same gaps as a layer before, so that further ones can't make the
    buffer larger. A model of eighty layers costs what one of ten costs. Often fewer do, which only a layout can tell
    (`Settling`).
    """
    return folded([_kind(hyper, places, layer, alike) for layer, alike in enumerate(alike_layers(hyper))])


def folded(kinds: Sequence[Hashable]) -> list[int]:
    """Places in a sequence, without what only repeats what comes before it more often than needed."""
    kept: list[int] = []
    start, end = 0, len(kinds)
    while start < end:
        period, length = _repetition(kinds, start)
        spare = max(0, length // period - _KEPT_PERIODS) // _CYCLE * _CYCLE * period
        cut = start + (_KEPT_PERIODS // 2) * period
        kept += [*range(start, cut), *range(cut + spare, start + length)] if spare else range(start, start + length)
        start += length
    return kept


def _repetition(kinds: Sequence[Hashable], start: int) -> tuple[int, int]:
    """The period with which the sequence repeats from here for longest, and for how long it does."""
    best = (1, 1)
    for period in range(1, _LONGEST_PERIOD + 1):
        end = start + period
        while end < len(kinds) and kinds[end] == kinds[end - period]:
            end += 1
        length = end - start
        if length >= (_KEPT_PERIODS + 1) * period and length > best[1]:
            best = (period, length)
    return best


def placed_kinds(hyper: Hyper, places: Places, *, exact: bool = False) -> list[Hashable]:
    """For each layer all that decides which backends compute its part of the graph: sizes do not.

    Exact, all that its part of the graph and of the buffers hangs on, copies of weights of the host too.
    """
    kinds: list[Hashable] = []
    for layer, alike in enumerate(alike_layers(hyper)):
        tensors = _tensors(hyper, layer)
        if not tensors or hyper.has_indexer(layer):
            kinds.append(layer)
            continue
        homes = tuple(places.tensor(f"blk.{layer}.{t.name}") for t in tensors)
        more: Hashable = ()
        if not exact:
            more = tuple(t.type if t.type in UNUSUAL_TYPES else "" for t in tensors)
        elif places.host and places.host in homes:  # lent to the GPUs
            more = tuple(t.bytes for t in tensors)
        kinds.append((alike, homes, more, places.layers[layer], places.cache(layer), hyper.ends_loop(layer)))
    return kinds


class Settling:
    """The layers of one model that are laid out, more with each try that shows that they are too few.

    From the same gaps a layer of the same kind goes to the same gaps. So a few layers are laid out, and the steps from
    gaps to gaps are written down; where those that were left out, step by step, end at the gaps that they begin with,
    they would have changed nothing.
    """

    def __init__(self, kinds: Sequence[Hashable]) -> None:
        self._kinds, self._different = kinds, _last_ones(kinds)
        self.kept = fewest_layers(kinds)

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


def fewest_layers(kinds: Sequence[Hashable]) -> list[int]:
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


def alike_layers(hyper: Hyper) -> list[int]:
    """For each layer, the first one that has such tensors, of whatever types, and habits."""

    def find() -> list[int]:
        first: dict[Hashable, int] = {}
        return [first.setdefault(_own_kind(hyper, layer), layer) for layer in range(hyper.layers)]

    return remembered(hyper, "layers alike", find)


def _own_kind(hyper: Hyper, layer: int) -> Hashable:
    """All that tells a layer from another one, wherever both lie."""
    tensors = _tensors(hyper, layer)
    numbers = (hyper.heads[layer], hyper.kv_heads[layer], hyper.experts_used[layer], hyper.compressions[layer])
    habits = (
        hyper.windowed[layer], hyper.recurrent[layer], hyper.keeps_keys(layer), has_rope(hyper, layer),
        hyper.clamps("exp", layer), hyper.clamps("shexp", layer), layer < hyper.blueprint.count("n_deepstack_layers"),
    )  # fmt: skip
    return tuple((t.name, t.shape) for t in tensors), numbers, habits


def _kind(hyper: Hyper, places: Places, layer: int, alike: int) -> Hashable:
    """All that tells a layer from another one; one that can't be left out is like no other.

    Weights on the host are copied to a GPU for long prompts, and copies of many sizes leave gaps that never settle; an
    indexer's picks live on from layer to layer; an encoder's layers have other names.
    """
    tensors = _tensors(hyper, layer)
    homes = {places.tensor(f"blk.{layer}.{t.name}") for t in tensors}
    if not tensors or hyper.has_indexer(layer) or (places.host in homes and places.host > 0):
        return layer
    return alike, tuple(sorted(homes)), places.layers[layer]


def _tensors(hyper: Hyper, layer: int) -> Sequence[Tensor]:
    every = hyper.blueprint.layer_tensors
    return every[layer] if layer < len(every) else ()
