"""What llama.cpp does by itself (`--fit`): whole layers, or the experts of whole layers, and a GiB left free."""

from unslow.facts.units import GIB
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.plan.llama_cpp.abilities import Abilities
from unslow.think.plan.llama_cpp.found import Found
from unslow.think.plan.llama_cpp.placing import Placing, placed
from unslow.think.plan.llama_cpp.price import Pricing
from unslow.think.plan.llama_cpp.search import Search
from unslow.think.setup import Setup

FIT_MARGIN_BYTES = GIB


_WHOLE_LAYERS = Abilities(apart=False, cache_on_host=False)
_WHOLE_EXPERTS = Abilities(partly=False, cache_on_host=False)


def fitted(search: Search, base: Settings, margin_bytes: int = FIT_MARGIN_BYTES) -> Found | None:
    """Its settings and their price; None where not even the host has room."""
    found = None
    if search.pieces.is_sparse:
        found = _best(search, base, margin_bytes, _WHOLE_EXPERTS)
    return found or _best(search, base, margin_bytes, _WHOLE_LAYERS)


def _best(search: Search, base: Settings, margin_bytes: int, abilities: Abilities) -> Found | None:
    """The most that fits: of experts those of whole layers while everything else is on GPUs, else whole layers."""
    mapped = search.hardware._replace(pinned=False)
    pricing = Pricing(search.pieces, mapped, search.pricing.work)
    own = Search(pricing, margin_bytes, search.threads, search.counted, abilities)
    if abilities.apart:
        own.allowed = lambda placing: not placing.whole
    return own.best(base, (base.micro_batch,))


def valued(search: Search, base: Settings, placing: Placing, split: tuple[int, ...]) -> Found | None:
    """Settings with their price and memory, whether they leave the margin or not; None where they can't load."""
    pieces = search.pieces
    whole = min(placing.whole, len(pieces.layers))
    placing = placing._replace(whole=whole)
    settings = placed(base, placing, pieces, split)
    if len(split) == 1 or not any(split):
        settings = settings._replace(split=())
    hardware = search.hardware
    setup = Setup(pieces.blueprint, hardware, settings, 0)
    memory = setup.memory()
    room = setup.host_room(memory.needs[:-1])
    if room and memory.needs[-1].total > room.usable_bytes:
        return None
    mapped = Pricing(pieces, hardware._replace(pinned=False), search.pricing.work)
    price = mapped.price(base, placing, split, search.threads)
    return Found(settings, placing, split, search.threads, price, memory)
