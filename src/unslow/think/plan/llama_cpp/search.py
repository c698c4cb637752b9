"""The best placing and micro-batch at one length of context and type of cache, by branch and bound."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from math import inf
from typing import NamedTuple

from unslow.facts.values import GIB, MIB
from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.memory.llama_cpp.need import Memory, needs_without_compute
from unslow.think.plan.llama_cpp.bounds import Buffers, Fitting, Guesses, Least, Placed, PlacingTrials
from unslow.think.plan.llama_cpp.placing import Kind, Ledger, Placing, placed_settings, split_evenly
from unslow.think.plan.llama_cpp.price import FoundSettings, Guard, Price, Pricing, SearchCount
from unslow.think.plan.llama_cpp.question import EVERYTHING, Abilities
from unslow.think.setup import Setup

_MEASURED_UP_TO = 2048
"""What the first prompt takes beside all buffers is known up to this micro-batch, and in the margin (search.py)."""
_ROUNDED_BYTES = 1.125
"""Of each number of a prompt, as CUDA rounds it before it meets a quantised matrix (32 of them and two sums in 36)."""
USUAL_BATCH = 2048
WORKSPACE_BYTES, SPARSE_WORKSPACE_BYTES = 160 * MIB, 320 * MIB
"""What no plan goes below: the first prompt took 74 to 126 MiB beside all buffers on an H200, and 172 to 236 with
experts, the more the larger the micro-batch (lab/plan_gpu)."""
_PADDED = 0.999  # of weights and cache, what they take without padding, which differs between GPUs and host
_MOST_TRIES = 60  # of placings of one way that are laid out: what is left then is not proved
_FEWEST_TRIES, _LAYERS_TRIED = 10, 800
"""Of placings of all ways, where nothing is to be proved: as many as make so many layers, for those take the time."""
EXACTLY, ABOUT = 1.01, 1.05
"""What can't be quicker by more than that is not looked for, where it is asked for and where it is shown beside: no
prediction is as fine as either."""
Allowed = Callable[[Placing], bool] | None  # which placings may be chosen; None for all of them


class PricedPlacing(NamedTuple):
    """A placing with what the work takes."""

    price: Price
    placing: Placing
    split: tuple[int, ...]


class _Way:
    """Settings but for where things lie, and what was tried with them."""

    def __init__(self, settings: Settings, ledger: Ledger, guesses: dict[Kind, tuple[int, ...]]) -> None:
        self.settings, self.ledger, self.guesses = settings, ledger, guesses
        self.tried = PlacingTrials()


class Search:
    """All questions about one model on one machine.

    A way is everything but where things lie. Its bound is the price with buffers that are known to be no larger than
    its own, of what was not tried yet. Of the way with the best bound a placing is laid out exactly and checked against
    all memories: first what will do as a rule, then what the bounds leave open. Once no bound is below the quickest
    that fits by more than a hundredth, nothing can beat it by more.
    """

    def __init__(
        self, pricing: Pricing, margin_bytes: int, threads: int, counted: SearchCount, abilities: Abilities = EVERYTHING
    ) -> None:
        self.pricing, self.threads, self.counted, self.abilities = pricing, threads, counted, abilities
        self.pieces, self.hardware = pricing.pieces, pricing.hardware
        least = SPARSE_WORKSPACE_BYTES if pricing.pieces.is_sparse else WORKSPACE_BYTES
        self.margin_bytes = max(margin_bytes, least)
        """What stays free on each GPU; the first prompt's workspace comes out of it."""
        self.same = EXACTLY  # How much longer what is found may take than what was not searched
        self.guards: tuple[Guard, ...] = ()
        self.allowed: Allowed = None
        hardware = self.hardware
        self._fitting = Fitting(self.pieces, len(hardware.rooms), abilities, hardware.speeds)
        self.buffers = Buffers(len(hardware.rooms))
        self._free_bytes = hardware.free_bytes
        self._known: dict[
            tuple[Settings, int, tuple[Guard, ...], Allowed], tuple[PricedPlacing | None, Sequence[Placed]]
        ] = {}
        """The quickest of placings that were priced. Beside each are those: this keeps them, and so their number."""

    def best(
        self, base: Settings, micro_batches: Sequence[int], sides: Sequence[bool] = (True,), below_s: float = inf
    ) -> FoundSettings | None:
        """The quickest of all ways with these settings; None where nothing fits, or nothing takes less than so long.

        The sides are whether the cache lies beside its layers; to the host it goes only where the runtime lets it.
        """
        if self._is_hopeless(base._replace(micro_batch=min(micro_batches))):
            return None
        order, heap, best = count(), list[tuple[float, int, _Way]](), None
        # No end where it is to be proved that nothing is quicker, which several GPUs never allow
        proves = self.same <= EXACTLY and self.hardware.is_plain
        tries = inf if proves else max(_FEWEST_TRIES, _LAYERS_TRIED // max(1, len(self.pieces.layers)))

        def push(way: _Way) -> None:
            if bound := self._best_placing(way):  # else nothing fits, even with the smallest buffers
                heapq.heappush(heap, (bound.price.request_s, next(order), way))

        for way in self._ways(base, micro_batches, sides):
            push(way)
        started = self.counted.laid_out
        while heap and heap[0][0] < below_s:
            if self.counted.laid_out - started >= tries:
                self.counted.unproved += 1
                break
            bound, _, way = heapq.heappop(heap)
            better = self._best_placing(way)
            if better and better.price.request_s <= bound:  # else another way's buffers were laid out in the meantime
                found = self._try_placing(way, below_s)
                if found and found.price.request_s < below_s:
                    best, below_s = found, found.price.request_s / self.same
            if way.tried.times < _MOST_TRIES:
                push(way)
            else:
                self.counted.unproved += 1
        return best

    def _is_hopeless(self, base: Settings) -> bool:
        """Whether weights, cache and margins are more than all memories together, wherever they lie."""
        # Of one GPU its smallest buffers count too, as everywhere here: those with nothing on the host
        rooms, host = self.hardware.rooms, self.hardware.host_room
        if host is None and not any(room.unified for room in rooms):
            return False
        plan, shares = self.pieces.blueprint, (1.0,) * len(rooms)
        ends = (needs_without_compute(plan, base._replace(gpu_layers=layers), shares) for layers in (-1, 0))
        least = min(sum(need.total for need in needs) for needs in ends)  # a tied output lies twice, or once
        free = sum(max(0, free - self.margin_bytes) for free in self._free_bytes) + (host.usable_bytes if host else 0)
        shared = sum(room.capacity_bytes - room.others_bytes for room in rooms if room.unified)
        if not shared and len(rooms) == 1 and host and host.usable_bytes < _PADDED * least <= free:
            memory, _ = self.laid_out(placed_settings(base, Placing(), self.pieces, (1,)))
            free -= memory.needs[0].compute
        return _PADDED * least > max(free, shared)

    def best_of(self, settings: Settings, allowed: Allowed) -> PricedPlacing | None:
        """The quickest placing of one way among some, whatever else gets slower by it; its memory is not laid out."""
        way = _Way(settings, Ledger(self.pieces, settings), {})
        return self._quickest(settings, self._placings(way), (), allowed)

    def _quickest(
        self, settings: Settings, placings: Sequence[Placed], guards: tuple[Guard, ...], allowed: Allowed
    ) -> PricedPlacing | None:
        """The quickest that is allowed and leaves other work as quick as it is; None where there is none."""
        key = settings, id(placings), guards, allowed
        if key not in self._known:
            some = [each for each in placings if allowed is None or allowed(each[0])]
            kept = [True] * len(some)
            for guard in guards:
                prices = guard.pricing.prices(settings, some, self.threads)
                kept = [ok and guard.allows(price) for ok, price in zip(kept, prices, strict=True)]
            guarded = [placing for placing, ok in zip(some, kept, strict=True) if ok]
            self.counted.priced += len(guarded)
            prices = self.pricing.prices(settings, guarded, self.threads)
            tried = [PricedPlacing(price, *placing) for price, placing in zip(prices, guarded, strict=True)]
            self._known[key] = min(tried, key=lambda each: each.price.request_s, default=None), placings
        return self._known[key][0]

    def _ways(self, base: Settings, micro_batches: Sequence[int], sides: Sequence[bool]) -> Iterator[_Way]:
        """Every micro-batch, with the cache beside its layers or on the host."""
        sides = sides if self.hardware.rooms and self.abilities.cache_on_host else (True,)
        combinations = sum(1 + len(layer.pieces) for layer in self.pieces.layers) ** 2 // 2
        for on_gpu in sides:
            ledger = Ledger(self.pieces, base._replace(cache_on_gpu=on_gpu))
            for micro in micro_batches:
                settings = base._replace(micro_batch=micro, batch=max(USUAL_BATCH, micro), cache_on_gpu=on_gpu)
                self.counted.combinations += combinations
                yield _Way(settings, ledger, self.buffers.guesses(settings))

    def _try_placing(self, way: _Way, below_s: float) -> FoundSettings | None:
        """One more placing of a way if it really fits: what it is turned down for is known to all that follow."""
        # What to lay out: what will do as a rule, else what the bounds leave open; None where that is nothing
        if not way.guesses:
            self._learn_base(way)
        best = self._best_placing(way, way.guesses)
        if best is None or best.price.request_s >= below_s:
            self._learn_base(way)
            best = self._best_placing(way)
        if best is None or best.price.request_s >= below_s:
            return None
        placing, split = best.placing, self._even_split(way, best)
        settings = placed_settings(way.settings, placing, self.pieces, split)
        memory, lacking = self.laid_out(settings)
        self._learn(way, best._replace(split=split), memory, lacking)
        if any(less > 0 for less in lacking):
            return None
        same = split == best.split
        price = best.price if same else self.pricing.price(way.settings, placing, split, self.threads)
        easy = not placing.first_complete and all(less <= self.margin_bytes - GIB for less in lacking[:-1])
        return FoundSettings(settings, placing, split, self.threads, price, memory, easy)

    def _learn(self, way: _Way, best: PricedPlacing, memory: Memory, lacking: Sequence[int]) -> None:
        placing, gpu_bytes = best.placing, way.ledger.gpu_bytes(best.placing)
        if not any(best.split):
            way.tried.close_host()
            return
        self.buffers.learn(way.settings, placing.kind, [need.compute for need in memory.needs[:-1]], lacking)
        if any(less > 0 for less in lacking[:-1]):
            way.tried.lacks_gpu(placing, gpu_bytes, best.split, self._even_split(way, best))
        elif lacking[-1] > 0:
            shared = any(room.unified for room in self.hardware.rooms)  # then it does not matter who has it
            way.tried.lacks_host(way.ledger.all_bytes if shared else gpu_bytes)
        else:
            way.tried.fits(placing)

    def _learn_base(self, way: _Way) -> None:
        """What a way's buffers are on one GPU with nothing on the host: about the smallest that they can be."""
        if len(self._free_bytes) != 1 or self.buffers.has_base(way.settings):
            return
        memory, _ = self.laid_out(placed_settings(way.settings, Placing(), self.pieces, (1,)))
        self.buffers.learn_base(way.settings, [need.compute for need in memory.needs[:-1]])

    def _even_split(self, way: _Way, best: PricedPlacing) -> tuple[int, ...]:
        if sum(map(bool, best.split)) <= 1 or self.hardware.speeds:
            return best.split
        rooms = self._room(self.buffers.least(way.settings, way.guesses), best.placing.kind)
        return split_evenly(way.ledger.on_gpus(best.placing), rooms) or best.split

    def _best_placing(self, way: _Way, guesses: Guesses | None = None) -> PricedPlacing | None:
        """The quickest of all that fit, as far as buffers are known, and that keep other work as quick as it is."""
        return self._quickest(way.settings, self._placings(way, guesses), self.guards, self.allowed)

    def _placings(self, way: _Way, guesses: Guesses | None = None) -> Sequence[Placed]:
        least = self.buffers.least(way.settings, guesses)
        rooms = {kind: self._room(least, kind) for kind in self._fitting.kinds}
        return self._fitting.placings(way.ledger, rooms, way.tried)

    def _room(self, least: Least, kind: Kind) -> tuple[float, ...]:
        """What each GPU has for weights and cache."""
        # With anything on the host, the first of several borrows it for prompts: without room for that, none has any
        pairs = zip(self._free_bytes, least.of(kind), strict=True)
        rooms = tuple(free - self.margin_bytes - buffer for free, buffer in pairs)
        return (-inf,) * len(rooms) if len(rooms) > 1 and any(kind) and least.of(kind)[0] and rooms[0] < 0 else rooms

    def laid_out(self, settings: Settings) -> tuple[Memory, tuple[int, ...]]:
        """What settings ask of every memory, and what each GPU and at the end the host lacks."""
        self.counted.laid_out += 1
        setup, fuses = Setup(self.pieces.blueprint, self.hardware, settings, self.margin_bytes), self.abilities.fuses
        # As the build lays it out; where that is not known, the larger of both: only experts make a difference
        ways = (fuses,) if fuses is not None else (True, False) if self.pieces.is_sparse else (True,)
        memory, *others = (setup.memory(settings._replace(fuses=fuses)) for fuses in ways)
        for other in others:
            both = zip(memory.needs, other.needs, strict=True)
            memory = memory._replace(needs=[mine if mine.total >= its.total else its for mine, its in both])
        *devices, host = memory.needs
        # What the rounded prompt takes more than with the largest micro-batch that was measured
        more = max(0, settings.used_micro_batch - _MEASURED_UP_TO)
        margin = self.margin_bytes + int(more * self.pieces.widest * _ROUNDED_BYTES)
        pairs = zip(devices, self._free_bytes, strict=True)
        lacking = [need.total - (free - margin) if need.total else 0 for need, free in pairs]
        room = setup.host_room(devices)
        lacking.append(host.total - room.usable_bytes if room else 0)
        return memory, tuple(lacking)
