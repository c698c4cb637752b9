"""The fastest plan, found by laying out everything in the order of its price."""

from collections.abc import Iterator, Sequence
from itertools import product

import msgspec

from unslow.facts.model import Blueprint
from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.plan.llama_cpp.placing import Placing, placed_settings
from unslow.think.plan.llama_cpp.search import Search

Placed = tuple[Placing, tuple[int, ...]]


def few_layers(plan: Blueprint, layers: int) -> Blueprint:
    """A model with its first layers alone, so that all placings can be looked at."""
    kept = [t for t in plan.tensors if not t.name.startswith("blk.") or int(t.name.split(".")[1]) < layers]
    metadata = {**plan.metadata, f"{plan.architecture}.block_count": layers}
    return msgspec.structs.replace(plan, tensors=kept, metadata=metadata)


def shortest_request(by: Search, base: Settings, micro_batches: Sequence[int], sides: Sequence[bool]) -> float:
    """Of all placings, splits, micro-batches and sides of the cache that fit, and that the guards allow."""
    every = []
    for on_gpu, micro in product(sides, micro_batches):
        way = base._replace(micro_batch=micro, batch=max(2048, micro), cache_on_gpu=on_gpu)
        some = [one for one in _placings(by) if by.allowed is None or by.allowed(one[0])]
        for guard in by.guards:
            prices = guard.pricing.prices(way, some, by.threads)
            some = [one for one, price in zip(some, prices, strict=True) if guard.allows(price)]
        prices = by.pricing.prices(way, some, by.threads)
        every += [(price.request_s, way, *one) for price, one in zip(prices, some, strict=True)]
    for seconds, way, placing, split in sorted(every, key=lambda one: one[0]):
        if max(by.laid_out(placed_settings(way, placing, by.pieces, split))[1]) <= 0:
            return seconds
    return float("inf")


def _placings(by: Search) -> Iterator[Placed]:
    layers, gpus = by.pieces.layers, len(by.hardware.rooms)
    count = len(layers)
    yield Placing(count), (0,) * gpus
    for whole in range(count + 1):
        cuts = [cut for cut in product(range(count + 2), repeat=gpus) if sum(cut) + whole == count + 1]
        for last in range(whole, count + 1):
            some = range(max(1, len(layers[last].pieces)) if last < count else 1)
            yield from ((Placing(whole, last - whole, pieces), cut) for pieces in some for cut in cuts)
