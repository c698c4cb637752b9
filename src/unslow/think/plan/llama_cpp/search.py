"""The best placing and micro-batch at one length of context and type of cache, by branch and bound.

A way is everything but where things lie. Its bound is the price with buffers that are known to be no larger than its
own: a larger micro-batch never needs smaller ones. The way with the best bound gets its buffers laid out exactly and
its best placing checked against all memories; once such a way comes first, nothing can beat it.

Within a way, more on the host is never faster, so for each number of whole layers there only the fewest pieces that
must follow are priced.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from unslow.facts.units import GIB, MIB
from unslow.think.fit.llama_cpp import Question
from unslow.think.memory.llama_cpp.need import Memory
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.plan.llama_cpp.hardware import Hardware
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import Kind, Ledger, Placing, held, placed, split_evenly
from unslow.think.plan.llama_cpp.price import Price, Pricing

MICRO_BATCHES = (128, 256, 512, 1024, 2048, 4096)
_USUAL_BATCH = 2048
WORKSPACE_BYTES, SPARSE_WORKSPACE_BYTES = 160 * MIB, 320 * MIB
"""What no plan goes below: the first prompt took 74 to 126 MiB beside all buffers on an H200, and 172 to 236 with
experts, the more the larger the micro-batch (lab/plan_gpu)."""
_LAID_OUT_WELL = 1024
"""Up to this micro-batch, layouts with experts on the host were right to the byte."""
_MOST_TRIES = 12
"""Of placings that the exact layout turned down: each time by less."""


class Found(NamedTuple):
    """Settings with their price, whose memory was laid out and fits."""

    settings: Settings
    placing: Placing
    split: tuple[int, ...]
    threads: int
    price: Price
    memory: Memory
    needs_no_fit: bool = False
    """Whether everything is on GPUs and leaves them so much that llama.cpp places it so by itself."""


class Abilities(NamedTuple):
    """What a runtime lets its user set, of all that llama.cpp can do."""

    apart: bool = True
    """Tensors by name, or the experts of some layers."""
    partly: bool = True
    """Some of the matrices of a layer, and not only all of them."""
    cache_on_host: bool = True
    unmapped: bool = True
    """Whether it can be told to load a file into memory, and not to map it."""
    micro_batches: tuple[int, ...] = MICRO_BATCHES
    cache_types: tuple[str, ...] = ("F16", "Q8_0", "Q4_0")


EVERYTHING = Abilities()


class Guard(NamedTuple):
    """Work that must not get slower than it is now: what the user may also do within the context."""

    pricing: Pricing
    most_s: float


class Counted:
    """How much a search looked at."""

    def __init__(self) -> None:
        self.combinations = self.priced = self.laid_out = 0


class _Way(NamedTuple):
    settings: Settings
    ledger: Ledger


class _Priced(NamedTuple):
    price: Price
    placing: Placing
    split: tuple[int, ...]


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
        self.far_cache = abilities.cache_on_host
        """Whether the cache may lie with the host while its layers do not."""
        self.allowed: Callable[[Placing], bool] | None = None
        """Which placings may be chosen; all of them where nothing is said."""
        self._learned = 0
        """How often something was learned of buffers."""
        self._guesses: dict[Kind, tuple[int, ...]] = {}
        self._buffers: dict[Settings, dict[tuple[int, Kind], tuple[int, ...]]] = {}

    @property
    def pieces(self) -> Pieces:
        """The model."""
        return self.pricing.pieces

    @property
    def hardware(self) -> Hardware:
        """The machine."""
        return self.pricing.hardware

    def best(self, base: Settings, micro_batches: Sequence[int]) -> Found | None:
        """The quickest of all ways with these settings; None where nothing fits."""
        order = count()
        heap: list[tuple[float, int, _Way, Found | None, int]] = []
        for way in self._ways(base, micro_batches):
            bound = self._bound(way)
            if bound is not None:
                heapq.heappush(heap, (bound, next(order), way, None, self._learned))
        while heap:
            bound, _, way, found, learned = heapq.heappop(heap)
            if found is not None:
                return found
            better = self._bound(way) if learned != self._learned else None
            if better is not None and better > bound:  # another way's buffers were laid out in the meantime
                heapq.heappush(heap, (better, next(order), way, None, self._learned))
                continue
            exact = self._exact(way)
            if exact is not None:
                heapq.heappush(heap, (exact.price.request_s, next(order), way, exact, self._learned))
        return None

    def best_of(self, settings: Settings, allowed: Callable[[Placing], bool]) -> tuple[Price, Placing] | None:
        """The quickest placing of one way among some, whatever else gets slower by it; its memory is not laid out."""
        way = _Way(settings, Ledger(self.pieces, settings))
        found = self._quickest(way, [each for each in self._placings(way) if allowed(each[0])])
        return None if found is None else (found.price, found.placing)

    def _ways(self, base: Settings, micro_batches: Sequence[int]) -> Iterator[_Way]:
        """Every micro-batch, with the cache beside its layers or on the host."""
        sides = (True, False) if self.hardware.rooms and self.far_cache and self.abilities.cache_on_host else (True,)
        for on_gpu in sides:
            ledger = Ledger(self.pieces, base._replace(cache_on_gpu=on_gpu))
            for micro in micro_batches:
                settings = base._replace(micro_batch=micro, batch=max(_USUAL_BATCH, micro), cache_on_gpu=on_gpu)
                yield _Way(settings, ledger)

    def _bound(self, way: _Way) -> float | None:
        """A price that this way can't be below; None where even so nothing fits."""
        best = self._best_placing(way)
        return None if best is None else best.price.request_s

    def _exact(self, way: _Way) -> Found | None:
        """The best placing of a way that really fits: what it is turned down for is known to all that follow."""
        self._guesses = self._of_others(way)
        try:
            return self._tried(way)
        finally:
            self._guesses = {}

    def _tried(self, way: _Way) -> Found | None:
        for _ in range(_MOST_TRIES):
            best = self._best_placing(way)
            if best is None:
                return None
            placing, split = best.placing, self._evened(way, best)
            price = best.price
            if split != best.split:
                price = self.pricing.price(way.settings, placing, split, self.threads)
            settings = placed(way.settings, placing, self.pieces, split)
            if not self._is_laid_out_well(settings):
                return None
            memory, lacking = self._laid_out(settings)
            guess = self._guesses.pop(placing.kind, None)
            if guess and sum(guess) > sum(need.compute for need in memory.needs[:-1]) + self._least_piece:
                self._learn(way, placing, memory, lacking)  # with so much less, a piece more may find room
                continue
            if all(less <= 0 for less in lacking):
                easy = not placing.first_complete and all(less <= self.margin_bytes - GIB for less in lacking[:-1])
                return Found(settings, placing, split, self.threads, price, memory, easy)
            if lacking[-1] > 0:  # the host lacks it, and anything else would leave it more
                return None
            self._learn(way, placing, memory, lacking)
        return None

    @property
    def _least_piece(self) -> int:
        return min((piece.bytes for layer in self.pieces.layers for piece in layer.pieces), default=0)

    def _of_others(self, way: _Way) -> dict[Kind, tuple[int, ...]]:
        """Buffers of ways with the same micro-batch and another cache: a first guess, which the layout corrects."""
        found: dict[Kind, tuple[int, ...]] = {}
        for settings, known in self._buffers.items():
            if settings.cache_on_gpu == way.settings.cache_on_gpu:
                found |= {kind: sizes for (micro, kind), sizes in known.items() if micro == way.settings.micro_batch}
        return found

    def _learn(self, way: _Way, placing: Placing, memory: Memory, lacking: Sequence[int]) -> None:
        """The buffers of placings of this kind; where they were known and did not do, so much more."""
        buffers = self._buffers.setdefault(way.settings._replace(micro_batch=0, batch=0), {})
        key = (way.settings.micro_batch, placing.kind)
        known = buffers.get(key)
        sizes = [need.compute for need in memory.needs[:-1]]
        if known is not None:
            sizes = [max(size, old + max(0, less)) for size, old, less in zip(sizes, known, lacking, strict=False)]
        buffers[key] = tuple(sizes)
        self._learned += 1

    def _evened(self, way: _Way, best: _Priced) -> tuple[int, ...]:
        """The same layers over the GPUs so that all of them have about as much left."""
        rooms = self._rooms(way, best.placing.kind)
        even = split_evenly(way.ledger.on_gpus(best.placing), rooms) if sum(map(bool, best.split)) > 1 else None
        return even or best.split

    def _best_placing(self, way: _Way) -> _Priced | None:
        """Of each number of whole layers on the host, the fewest pieces that must follow; the quickest of all."""
        placings = [each for each in self._placings(way) if self.allowed is None or self.allowed(each[0])]
        allowed = [True] * len(placings)
        for guard in self.guards:
            prices = guard.pricing.prices(way.settings, placings, self.threads)
            allowed = [ok and price.request_s <= guard.most_s for ok, price in zip(allowed, prices, strict=True)]
        return self._quickest(way, [placing for placing, ok in zip(placings, allowed, strict=True) if ok])

    def _quickest(self, way: _Way, placings: Sequence[tuple[Placing, tuple[int, ...]]]) -> _Priced | None:
        self.counted.priced += len(placings)
        prices = self.pricing.prices(way.settings, placings, self.threads)
        tried = [_Priced(price, *placing) for price, placing in zip(prices, placings, strict=True)]
        return min(tried, key=lambda each: each.price.request_s, default=None)

    def _placings(self, way: _Way) -> Iterator[tuple[Placing, tuple[int, ...]]]:
        """All that can be the quickest, as far as buffers are known."""
        layers, gpus = way.ledger.layers, len(self.hardware.rooms)
        self.counted.combinations += sum(1 + len(layer.pieces) for layer in self.pieces.layers) ** 2 // 2
        for whole in range(layers + 1 if gpus else 0):
            found = self._fitting(way, whole)
            if found:
                yield found
                if not found[0].first_complete:  # all of it is there
                    return
        yield Placing(layers), (0,) * gpus

    def _fitting(self, way: _Way, whole: int) -> tuple[Placing, tuple[int, ...]] | None:
        """The fewest pieces on the host, with so many whole layers, that the GPUs one by one hold the rest.

        Every sort of pieces has buffers of its own, and so room of its own.
        """
        best: tuple[Placing, tuple[int, ...]] | None = None
        for least in self._sorts(whole):
            found = held(way.ledger, least, self._rooms(way, least.kind))
            if found and (best is None or way.ledger.gpu_bytes(found[0]) > way.ledger.gpu_bytes(best[0])):
                best = found
            if best and best[0].first_complete == whole:  # no pieces at all
                break
        return best

    def _sorts(self, whole: int) -> Iterator[Placing]:
        """The smallest placing of each sort."""
        yield Placing(whole)
        if not self.abilities.apart or whole >= len(self.pieces.layers):
            return
        pieces = max(1, *(len(layer.pieces) for layer in self.pieces.layers)) if self.abilities.partly else 1
        for apart in range(2 if whole + 1 < len(self.pieces.layers) else 1):
            yield from (Placing(whole, apart, some) for some in range(0 if apart else 1, pieces))

    def _rooms(self, way: _Way, kind: Kind) -> list[float]:
        """What each GPU has for weights and cache."""
        pairs = zip(self.hardware.free_bytes, self._buffer(way, kind), strict=True)
        return [free - self.margin_bytes - buffer for free, buffer in pairs]

    def _buffer(self, way: _Way, kind: Kind) -> tuple[int, ...]:
        """Compute buffers of each GPU: as laid out, else the smallest that were of a way with no larger micro-batch."""
        name = way.settings._replace(micro_batch=0, batch=0)
        known = self._buffers.setdefault(name, {})
        micro = way.settings.micro_batch
        own = known.get((micro, kind)) or self._guesses.get(kind)
        if own is not None:
            return own
        alike = [(size, sizes) for (size, other), sizes in known.items() if other == kind and size <= micro]
        if alike:
            return max(alike)[1]
        others = [sizes for (size, _), sizes in known.items() if size <= micro]
        return min(others) if others else (0,) * len(self.hardware.rooms)

    def _is_laid_out_well(self, settings: Settings) -> bool:
        """Whether buffers are known to the byte: of large micro-batches with the host's experts they are not.

        With micro-batches of 1536 and 2048 it took 71 and 111 MiB more than the layout says (lab/plan_gpu), with 512,
        1024 and 4096 what it says.
        """
        borrows = settings.experts_on_cpu or any("exps" in pattern for pattern, _ in settings.overrides)
        return not borrows or not settings.offload_ops or settings.micro_batch <= _LAID_OUT_WELL

    def laid_out(self, settings: Settings) -> Memory:
        """What settings ask of every memory."""
        return self._laid_out(settings)[0]

    def _laid_out(self, settings: Settings) -> tuple[Memory, tuple[int, ...]]:
        """The memory, and what each GPU and at the end the host lacks."""
        self.counted.laid_out += 1
        hardware = self.hardware
        question = Question(self.pieces.blueprint, hardware.rooms, hardware.host_room, settings, self.margin_bytes)
        memory = question.memory()
        *devices, host = memory.needs
        pairs = zip(devices, hardware.free_bytes, strict=True)
        lacking = [need.total - (free - self.margin_bytes) if need.total else 0 for need, free in pairs]
        room = question.host_room(devices)
        lacking.append(host.total - room.usable_bytes if room else 0)
        return memory, tuple(lacking)
