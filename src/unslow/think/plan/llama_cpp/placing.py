"""Where the layers and their pieces lie, among several GPUs too: a few numbers, in bytes and in llama.cpp's words."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

from unslow.think.memory.llama_cpp.cache import layer_caches
from unslow.think.memory.llama_cpp.hyperparameters import Settings, hyper_of
from unslow.think.plan.llama_cpp.pieces import Pieces

Kind = tuple[int, int, int]
SEVERAL = 3  # layers in a row whose weights a GPU borrows at once: with more, its buffers do not grow as a rule


class Placing(NamedTuple):
    """The first layers on the host as a whole, the next without their pieces, of one more some of its pieces."""

    whole: int = 0
    apart: int = 0
    pieces: int = 0  # Of the layer after those: so many of its first pieces on the host

    @property
    def first_complete(self) -> int:
        """The first layer that lies on a GPU with everything."""
        return self.whole + self.apart + bool(self.pieces)

    @property
    def kind(self) -> "Kind":
        """What sort of work the host gets: placings of one kind need the same buffers, or nearly."""
        return min(self.whole, SEVERAL), min(self.apart, 1), self.pieces


class Ledger:
    """What each placing asks of GPUs at one length of context and type of cache: weights and cache, without buffers."""

    def __init__(self, pieces: Pieces, settings: Settings) -> None:
        self.pieces, self.layers = pieces, len(pieces.layers)
        caches = dict.fromkeys(range(len(pieces.layers)), 0)
        for cache in layer_caches(hyper_of(pieces.blueprint), settings):
            if cache.layer in caches:
                caches[cache.layer] += cache.bytes
        self.cache_bytes = tuple(caches.values())
        kept = self.cache_bytes if settings.cache_on_gpu else (0,) * len(self.cache_bytes)
        self._rest = [layer.rest_bytes + cache for layer, cache in zip(pieces.layers, kept, strict=True)]
        self._full = [rest + layer.piece_bytes for rest, layer in zip(self._rest, pieces.layers, strict=True)]
        self._rest_sums = tuple(accumulate(self._rest, initial=0))
        self._piece_sums = tuple(accumulate((layer.piece_bytes for layer in pieces.layers), initial=0))
        self._first_sums = [tuple(accumulate((p.bytes for p in layer.pieces), initial=0)) for layer in pieces.layers]
        self.output_bytes = int(pieces.load.output_bytes)
        self.all_bytes = self._rest_sums[-1] + self._piece_sums[-1] + self.output_bytes  # With everything on GPUs

    def gpu_bytes(self, placing: Placing) -> int:
        """What lies on GPUs."""
        away = self._rest_sums[placing.whole] + self._piece_sums[placing.whole + placing.apart]
        return self.all_bytes - away - self._some_bytes(placing)

    def _some_bytes(self, placing: Placing) -> int:
        if not placing.pieces:
            return 0
        sums = self._first_sums[placing.whole + placing.apart]
        return sums[min(placing.pieces, len(sums) - 1)]

    def fewest_apart(self, least: Placing, room: float) -> Placing | None:
        """The fewest pieces on the host that leave so much to GPUs, no fewer than these; None where all are too few."""
        # The number of whole layers stays, and so does how many pieces the layer after the last gives up, if any
        lacking = self.gpu_bytes(least) - room
        if not least.apart:
            return least if lacking <= 0 and self._is_sound(least) else None
        first = least.whole + least.apart
        last = bisect_left(self._piece_sums, self._piece_sums[first] + lacking, first) if lacking > 0 else first
        placing = least._replace(apart=min(last, self.layers) - least.whole)
        while placing.first_complete <= self.layers:
            if self.gpu_bytes(placing) <= room and self._is_sound(placing):
                return placing
            placing = placing._replace(apart=placing.apart + 1)
        return None

    def _is_sound(self, placing: Placing) -> bool:
        """Whether the layer after the last keeps some of its pieces, where it gives up some."""
        return not placing.pieces or placing.pieces < len(self.pieces.layers[placing.first_complete - 1].pieces)

    def on_gpus(self, placing: Placing) -> list[int]:
        """The bytes of each layer that lies on GPUs, in order, and at the end of the output."""
        first = placing.whole + placing.apart
        sizes = [*self._rest[placing.whole : first], *self._full[first:], self.output_bytes]
        if placing.pieces:
            sizes[placing.apart] -= self._some_bytes(placing)
        return sizes


def fewest_on_host(ledger: Ledger, least: Placing, rooms: Sequence[float], most: float = inf) -> Placing | None:
    """The fewest pieces of a sort on the host so that each GPU can hold its layers, and all together no more."""
    if rooms[0] == -inf:
        return None
    room = min(most, sum(max(0.0, r) for r in rooms))
    while True:
        placing = ledger.fewest_apart(least, room)
        if placing is None or len(rooms) == 1 or fill_in_order(ledger.on_gpus(placing), rooms):
            return placing
        room = ledger.gpu_bytes(placing) - 1  # layers are whole: what all hold together, each may not


def split_layers(
    ledger: Ledger, placing: Placing, rooms: Sequence[float], speeds: Sequence[float] = ()
) -> tuple[int, ...]:
    """How many layers each GPU has of a placing that they can hold; unlike GPUs have their speeds."""
    if len(rooms) == 1:
        return (ledger.layers + 1 - placing.whole,)
    sizes = ledger.on_gpus(placing)
    if speeds and (by_speed := split_by_speed(sizes, rooms, speeds)):
        return by_speed
    # About how many layers each takes where all fill up alike: for a price, not for a layout
    bounds = list(accumulate(max(0.0, room) for room in rooms))
    counts, sum_, whole = [0] * len(rooms), 0.0, sum(sizes)
    for size in sizes:
        at = (sum_ + size / 2) / whole * bounds[-1]
        counts[min(bisect_left(bounds, at), len(rooms) - 1)] += 1
        sum_ += size
    return tuple(counts)


def split_evenly(sizes: Sequence[int], rooms: Sequence[float]) -> tuple[int, ...] | None:
    """How many layers in a row each GPU takes so that the least left on any is the most; None where they do not fit."""
    # The headroom is found by halving: with more of it, never more fits
    low, high = 0.0, max(rooms, default=0.0)
    best = fill_in_order(sizes, rooms)
    if best is None:
        return None
    for _ in range(20):  # to a millionth of a card
        middle = (low + high) / 2
        counts = fill_in_order(sizes, [room - middle for room in rooms])
        low, high, best = (middle, high, counts) if counts else (low, middle, best)
    return best


def split_by_speed(sizes: Sequence[int], rooms: Sequence[float], speeds: Sequence[float]) -> tuple[int, ...] | None:
    """How many layers in a row each GPU takes so that the slowest have as few as can be; None where they do not fit."""
    left = list(rooms)
    best = fill_in_order(sizes, left)
    for device in sorted(range(len(rooms)), key=lambda device: speeds[device]) if best else ():
        low, high = 0.0, left[device]
        for _ in range(20):  # to a millionth of a card
            left[device] = (low + high) / 2
            counts = fill_in_order(sizes, left)
            low, high, best = (low, left[device], counts) if counts else (left[device], high, best)
        left[device] = high
    return best


def fill_in_order(sizes: Sequence[int], rooms: Sequence[float]) -> tuple[int, ...] | None:
    """Each GPU up to the brim, in their order; None where something is left over."""
    counts = [0] * len(rooms)
    device, left = 0, list(rooms)
    for size in sizes:
        while device < len(rooms) and left[device] < size:
            device += 1
        if device == len(rooms):
            return None
        left[device] -= size
        counts[device] += 1
    return tuple(counts)


def placed_settings(settings: Settings, placing: Placing, pieces: Pieces, split: Sequence[int]) -> Settings:
    """The settings that place it so; the host is the backend after all GPUs."""
    layers, host = len(pieces.layers), str(len(split))
    experts = placing.whole + placing.apart if pieces.is_sparse and placing.apart else 0
    return settings._replace(
        gpu_layers=layers + 1 - placing.whole if any(split) else 0,
        experts_on_cpu=experts,
        overrides=tuple((pattern, host) for pattern in patterns(placing, pieces)),
        split=tuple(map(float, split)) if len(split) > 1 else (),
    )


def patterns(placing: Placing, pieces: Pieces) -> tuple[str, ...]:
    """Names of tensors that go to the host while their layers do not, beside experts that `--n-cpu-moe` counts."""
    first, last = placing.whole, placing.whole + placing.apart
    found = []
    if not pieces.is_sparse:  # one pattern for each run of layers that have pieces of the same names
        runs: dict[tuple[str, ...], list[str]] = {}
        for number in range(first, last):
            names = tuple(re.escape(piece.name) for piece in pieces.layers[number].pieces)
            runs.setdefault(names, []).append(str(number))
        found += [rf"blk\.({'|'.join(layers)})\.({'|'.join(names)})" for names, layers in runs.items() if names]
    if placing.pieces:
        some = (re.escape(piece.name) for piece in pieces.layers[last].pieces[: placing.pieces])
        found.append(rf"blk\.{last}\.({'|'.join(some)})")
    return tuple(found)
