"""The best placing and micro-batch at one length of context and type of cache, by branch and bound.

A way is everything but where things lie. Its bound is the price with buffers that are known to be no larger than its
own. The way with the best bound gets its buffers laid out exactly and its best placing checked against all memories:
it fits, or its bound is now a better one; once a way that fits comes first, nothing can beat it.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import count
from math import inf

from unslow.facts.units import GIB, MIB
from unslow.think.memory.llama_cpp.need import Memory
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.plan.llama_cpp.abilities import EVERYTHING, Abilities
from unslow.think.plan.llama_cpp.buffers import Buffers, Guesses, Least
from unslow.think.plan.llama_cpp.fitting import Fitting, Placed
from unslow.think.plan.llama_cpp.found import Counted, Found
from unslow.think.plan.llama_cpp.guards import Guard
from unslow.think.plan.llama_cpp.hardware import Hardware
from unslow.think.plan.llama_cpp.layouts import Layouts
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import Kind, Ledger, Placing, placed
from unslow.think.plan.llama_cpp.price import Price, Pricing
from unslow.think.plan.llama_cpp.quickest import Priced, Quickest
from unslow.think.plan.llama_cpp.splitting import split_evenly

_USUAL_BATCH = 2048
WORKSPACE_BYTES, SPARSE_WORKSPACE_BYTES = 160 * MIB, 320 * MIB
"""What no plan goes below: the first prompt took 74 to 126 MiB beside all buffers on an H200, and 172 to 236 with
experts, the more the larger the micro-batch (lab/plan_gpu)."""
_MOST_TRIES = 12
"""Of placings that the exact layout turned down: each time by less."""


class _Way:
    """Settings but for where things lie, and what was tried with them."""

    def __init__(self, settings: Settings, ledger: Ledger, guesses: dict[Kind, tuple[int, ...]]) -> None:
        self.settings, self.ledger, self.guesses = settings, ledger, guesses
        self.tries = 0

    @property
    def is_open(self) -> bool:
        """Whether there is anything left to try."""
        return self.tries < _MOST_TRIES

    def close(self) -> None:
        """Nothing of it can fit."""
        self.tries = _MOST_TRIES


class Search:
    """All questions about one model on one machine."""

    def __init__(
        self, pricing: Pricing, margin_bytes: int, threads: int, counted: Counted, abilities: Abilities = EVERYTHING
    ) -> None:
        self.pricing, self.threads, self.counted, self.abilities = pricing, threads, counted, abilities
        least = SPARSE_WORKSPACE_BYTES if pricing.pieces.is_sparse else WORKSPACE_BYTES
        self.margin_bytes = max(margin_bytes, least)
        """What stays free on each GPU; the first prompt's workspace comes out of it."""
        self.guards: tuple[Guard, ...] = ()
        self.allowed: Callable[[Placing], bool] | None = None
        """Which placings may be chosen; all of them where nothing is said."""
        hardware = pricing.hardware
        self._fitting = Fitting(pricing.pieces, len(hardware.rooms), abilities, hardware.speeds)
        self._layouts = Layouts(pricing.pieces, hardware, self.margin_bytes, abilities.fuses)
        self.buffers = Buffers(len(hardware.rooms))
        self._free_bytes = hardware.free_bytes
        self._quickest = Quickest(pricing, threads, counted)

    @property
    def pieces(self) -> Pieces:
        """The model."""
        return self.pricing.pieces

    @property
    def hardware(self) -> Hardware:
        """The machine."""
        return self.pricing.hardware

    def best(
        self, base: Settings, micro_batches: Sequence[int], sides: Sequence[bool] = (True,), below_s: float = inf
    ) -> Found | None:
        """The quickest of all ways with these settings; None where nothing fits, or nothing takes less than so long.

        The sides are whether the cache lies beside its layers; to the host it goes only where the runtime lets it.
        """
        order, heap = count(), list[tuple[float, int, _Way, Found | None]]()

        def push(bound: float | None, way: _Way, found: Found | None = None) -> None:
            if bound is not None:
                heapq.heappush(heap, (bound, next(order), way, found))

        for way in self._ways(base, micro_batches, sides):
            push(self._bound(way), way)
        while heap and heap[0][0] < below_s:
            bound, _, way, found = heapq.heappop(heap)
            if found is not None:
                return found
            better = self._bound(way)
            if better is None or better > bound:  # another way's buffers were laid out in the meantime
                push(better, way)
                continue
            found = self._tried(way)
            if found is not None:
                push(found.price.request_s, way, found)
            elif way.is_open:
                push(self._bound(way), way)
        return None

    def best_of(self, settings: Settings, allowed: Callable[[Placing], bool]) -> tuple[Price, Placing] | None:
        """The quickest placing of one way among some, whatever else gets slower by it; its memory is not laid out."""
        way = _Way(settings, Ledger(self.pieces, settings), {})
        found = self._quickest.of(settings, self._placings(way), (), allowed)
        return None if found is None else (found.price, found.placing)

    def _ways(self, base: Settings, micro_batches: Sequence[int], sides: Sequence[bool]) -> Iterator[_Way]:
        """Every micro-batch, with the cache beside its layers or on the host."""
        sides = sides if self.hardware.rooms and self.abilities.cache_on_host else (True,)
        for on_gpu in sides:
            ledger = Ledger(self.pieces, base._replace(cache_on_gpu=on_gpu))
            for micro in micro_batches:
                settings = base._replace(micro_batch=micro, batch=max(_USUAL_BATCH, micro), cache_on_gpu=on_gpu)
                self.counted.combinations += self._combinations
                yield _Way(settings, ledger, self.buffers.guesses(settings))

    def _bound(self, way: _Way) -> float | None:
        """A price that this way can't be below; None where even so nothing fits."""
        best = self._best_placing(way)
        return None if best is None else best.price.request_s

    def _tried(self, way: _Way) -> Found | None:
        """The best placing of a way if it really fits: what it is turned down for is known to all that follow."""
        way.tries += 1
        best = self._best_placing(way, way.guesses)
        if best is None:
            way.close()
            return None
        placing, split = best.placing, self._evened(way, best)
        settings = placed(way.settings, placing, self.pieces, split)
        memory, lacking = self._laid_out(settings)
        if self._is_news(way, placing.kind, memory, lacking) and self._has_better(way, placing):
            return None
        if lacking[-1] > 0:  # the host lacks it, and anything else would leave it more
            way.close()
        if any(less > 0 for less in lacking):
            return None
        price = best.price
        if split != best.split:
            price = self.pricing.price(way.settings, placing, split, self.threads)
        easy = not placing.first_complete and all(less <= self.margin_bytes - GIB for less in lacking[:-1])
        return Found(settings, placing, split, self.threads, price, memory, easy)

    def _is_news(self, way: _Way, kind: Kind, memory: Memory, lacking: Sequence[int]) -> bool:
        """Whether buffers of this sort were not known; they are learned, and where they did not do, so much more."""
        is_known = self.buffers.own(way.settings, kind) is not None
        if not is_known or any(less > 0 for less in lacking):
            self.buffers.learn(way.settings, kind, [need.compute for need in memory.needs[:-1]], lacking)
        return not is_known

    def _has_better(self, way: _Way, placing: Placing) -> bool:
        """Whether by what is known now another placing comes first: with smaller buffers, a piece more finds room."""
        best = self._best_placing(way, way.guesses)
        return best is not None and best.placing != placing

    def _evened(self, way: _Way, best: Priced) -> tuple[int, ...]:
        """The same layers over the GPUs so that all of them have about as much left."""
        if sum(map(bool, best.split)) <= 1 or self.hardware.speeds:
            return best.split
        rooms = self._room(self.buffers.least(way.settings, way.guesses), best.placing.kind)
        return split_evenly(way.ledger.on_gpus(best.placing), rooms) or best.split

    def _best_placing(self, way: _Way, guesses: Guesses | None = None) -> Priced | None:
        """The quickest of all that fit, as far as buffers are known, and that keep other work as quick as it is."""
        return self._quickest.of(way.settings, self._placings(way, guesses), self.guards, self.allowed)

    def _placings(self, way: _Way, guesses: Guesses | None = None) -> Sequence[Placed]:
        """All that can be the quickest, as far as buffers are known."""
        least = self.buffers.least(way.settings, guesses)
        return self._fitting.placings(way.ledger, self._fitting.rooms(lambda kind: self._room(least, kind)))

    @cached_property
    def _combinations(self) -> int:
        """Placings that there are, about."""
        return sum(1 + len(layer.pieces) for layer in self.pieces.layers) ** 2 // 2

    def _room(self, least: Least, kind: Kind) -> tuple[float, ...]:
        """What each GPU has for weights and cache."""
        pairs = zip(self._free_bytes, least.of(kind), strict=True)
        return tuple(free - self.margin_bytes - buffer for free, buffer in pairs)

    def laid_out(self, settings: Settings) -> Memory:
        """What settings ask of every memory."""
        return self._laid_out(settings)[0]

    def _laid_out(self, settings: Settings) -> tuple[Memory, tuple[int, ...]]:
        self.counted.laid_out += 1
        return self._layouts.of(settings)
