"""All searches of one question: every choice of quant, cache and context at its best, and llama.cpp's own."""

from collections import Counter
from functools import cached_property
from math import inf, nextafter
from typing import NamedTuple

from unslow.facts.errors import UserError
from unslow.facts.model import Blueprint
from unslow.think.hardware import Hardware
from unslow.think.memory.llama_cpp.hyperparameters import CELLS_PADDING, Settings, hyper_of, ollama_micro_batch
from unslow.think.memory.llama_cpp.need import Need
from unslow.think.memory.llama_cpp.places import Places
from unslow.think.physics.placement import FIT_MARGIN_BYTES
from unslow.think.plan.goal import Goal
from unslow.think.plan.llama_cpp.placing import Placing, placed_settings
from unslow.think.plan.llama_cpp.price import GUARDED, FoundSettings, Guard, Pricing, SearchCount, floor_of, other_work
from unslow.think.plan.llama_cpp.question import Abilities, LlamaPlanQuestion, Variant
from unslow.think.plan.llama_cpp.runnable import MARGIN_BYTES, find_runnable, packed_cache
from unslow.think.plan.llama_cpp.search import ABOUT, EXACTLY, Search
from unslow.think.plan.quality import Cost, quality_cost
from unslow.think.setup import LOADED, Setup

DEFAULT_CACHE, DEFAULT_MICRO_BATCH = "F16", 512
NEARLY = 1.03  # within so much, plans are alike: the simpler one is taken
MUCH = 1.15  # what a setting must gain that turns against its user once a conversation is longer than usual
MOST_TOKENS = 2**27
"""That a plan lays out: a hundred times the longest that a model was trained for. A file may claim anything."""
_CACHE = "Q8_0"  # the smallest that costs no quality
_WHOLE_LAYERS = Abilities(apart=False, cache_on_host=False)
_WHOLE_EXPERTS = Abilities(partly=False, cache_on_host=False)


class Point(NamedTuple):
    """One choice at its best, with what it costs in quality."""

    variant: Variant
    found: FoundSettings
    context: int  # Of one conversation
    cost: Cost
    proved: bool = False  # Whether no other placing or micro-batch of this choice can be quicker

    @property
    def request_s(self) -> float:
        """What the user's work takes."""
        return self.found.price.request_s

    @property
    def increase(self) -> float:
        """Of perplexity; an unpublished loss counts as much, so that it is never treated as zero."""
        known = self.cost.perplexity_increase
        return 1.0 if known is None else known


class Points:
    """What was found is kept."""

    def __init__(self, question: LlamaPlanQuestion) -> None:
        tokens = question.goal.context * question.goal.work.users
        if tokens > MOST_TOKENS:
            too_long = f"a context of {tokens:,} tokens is too long for a plan"
            raise UserError(too_long, f"at most {MOST_TOKENS:,} in total")
        self.question, self.counted = question, SearchCount()
        self._searches: dict[str, Search] = {}
        self._found: dict[tuple[str, str, str, int], Point | None] = {}
        self._by_itself: dict[int, FoundSettings | None] = {}
        self.settled: tuple[int, ...] = ()
        """Micro-batches that did best where all were tried: others are looked at with these alone. Empty: with all."""
        self.unguarded = False  # Whether nothing was found that keeps all other work as quick as it is

    def at(self, variant: Variant, key: str, value: str, context: int) -> Point | None:
        """The quickest settings of this choice; None where nothing fits."""
        name = (variant.quant, key, value, context)
        if name not in self._found:
            has_room = has_room_for(variant.blueprint, self.question.hardware)
            self._found[name] = self._best(variant, key, value, context) if has_room else None
        return self._found[name]

    def _best(self, variant: Variant, key: str, value: str, context: int) -> Point | None:
        search = self.search(variant)
        base = self.base(context)._replace(key_type=key, value_type=value)
        floor = floor_of(self.question, variant, context)
        asked = variant.given and context == self.question.goal.context
        compared = asked and self.question.goal.aim == "speed"
        # All micro-batches are weighed for what was asked, and to the last
        search.same = EXACTLY if asked and not self.settled and self.question.hardware.is_plain else ABOUT
        unproved = self.counted.unproved
        free = self.unguarded or self.question.goal.alone
        guards = self._guards(variant, context) if compared and not free else ()
        # without anything to compare it with, a cache stays beside its layers
        found = self._quickest(search, base, (*guards, *floor), may_be_far=compared)
        if found is None and floor:
            found = self._quickest(search, base, guards, may_be_far=compared)
        proved = search.same == EXACTLY and self.counted.unproved == unproved
        return None if found is None else self.point(variant, found, context)._replace(proved=proved)

    def _usual(self, search: Search, base: Settings, found: FoundSettings) -> FoundSettings | None:
        """What is nearly as quick with the usual micro-batch, or with one nearer to it."""
        # What the largest ones gain is less than predicted as a rule
        sides = (True,) if found.settings.cache_on_gpu else (True, False)
        most_s, own = nextafter(NEARLY * found.price.request_s, inf), found.settings.micro_batch
        between = range(min(own, DEFAULT_MICRO_BATCH), max(own, DEFAULT_MICRO_BATCH) + 1)
        nearer = [size for size in self._micro_batches(base) if size in between and size != own]
        nearer.sort(key=lambda size: abs(size - DEFAULT_MICRO_BATCH))
        tried = (search.best(base, (size,), sides, most_s) for size in nearer)
        return next((each for each in tried if each), None)

    def alone(self, variant: Variant, key: str, value: str, context: int) -> Point | None:
        """All of it on one of several GPUs; None where there is but one, or none has the room."""
        # Where the others have no room at all, what it lacks is on the host
        hardware, base = self.question.hardware, self.base(context)._replace(key_type=key, value_type=value)
        if len(hardware.rooms) == 1:
            return None
        tried = (self._on_one(variant, base, number) for number in range(len(hardware.rooms)))
        found = min((each for each in tried if each), key=lambda each: each.price.request_s, default=None)
        return None if found is None else self.point(variant, found, context)

    def _on_one(self, variant: Variant, base: Settings, number: int) -> FoundSettings | None:
        hardware = self.question.hardware
        one = hardware._replace(rooms=hardware.rooms[number : number + 1], chips=hardware.chips[number : number + 1])
        search = self.new_search(variant, one)
        others = [free for n, free in enumerate(hardware.free_bytes) if n != number]
        if max(others) > search.margin_bytes:
            search.allowed = lambda placing: not placing.first_complete
        goal = self.question.goal
        free = self.unguarded or goal.alone or goal.aim != "speed"
        guards = () if free else self._guards(variant, base.context // goal.work.users)
        own_guards = tuple(g._replace(pricing=Pricing(variant.pieces, one, g.pricing.work)) for g in guards)
        found = self._quickest(search, base, own_guards, may_be_far=False)
        if found is None:
            return None
        own, host = found.memory.needs
        needs = [own if n == number else Need(0, 0, 0) for n in range(len(hardware.rooms))]
        split = tuple(found.split[0] if n == number else 0 for n in range(len(hardware.rooms)))
        return found._replace(split=split, memory=found.memory._replace(needs=[*needs, host]))

    def _quickest(
        self, search: Search, base: Settings, guards: tuple[Guard, ...], *, may_be_far: bool
    ) -> FoundSettings | None:
        """What these guards allow; of what is nearly as quick, that with the usual micro-batch."""
        # The cache goes to the host only where that gains much: conversations get deeper than they were thought to
        search.guards = guards
        sizes = self._micro_batches(base)
        found = search.best(base, sizes)
        if may_be_far and (found is None or found.placing.first_complete):
            found = search.best(base, sizes, (False,), found.price.request_s / MUCH if found else inf) or found
        if found is None or found.settings.micro_batch == DEFAULT_MICRO_BATCH:
            return found
        return self._usual(search, base, found) or found

    def runnable(self) -> Point | None:
        """What `fit` finds for the given file, where the search finds nothing: with less free than a plan leaves."""
        asked, given, hardware = self.question, self.question.given_variant, self.question.hardware
        if asked.margin_bytes > MARGIN_BYTES:  # which the user wants to stay free
            return None
        base = self.base(asked.goal.context)
        setup = Setup(given.blueprint, hardware, base, asked.margin_bytes)
        runs = find_runnable(setup, packed_cache(setup, given.quant, given.parameters), asked.abilities)
        if runs is None or runs.without_gpus:  # which is asked for where this is None
            return None
        settings, everything = runs.settings, len(given.pieces.layers) + 1
        settings = settings._replace(gpu_layers=everything) if settings.gpu_layers < 0 else settings
        held = Counter(Places(hyper_of(given.blueprint), settings, settings.split or setup.shares).layers)
        split = tuple(held[gpu] for gpu in range(len(hardware.rooms)))
        price = self.search(given).pricing.price(settings, runs.placing, split, asked.threads)
        found = FoundSettings(settings, runs.placing, split, asked.threads, price, setup.memory(settings))
        return self.point(given, found, asked.goal.context)

    def point(self, variant: Variant, found: FoundSettings, context: int) -> Point:
        """Settings with what they cost in quality."""
        settings = found.settings
        return Point(variant, found, context, self.cost(variant, settings.key_type, settings.value_type))

    def cost(self, variant: Variant, key: str, value: str = "") -> Cost:
        """What a quant with such a cache costs in quality."""
        architecture, rotated = variant.blueprint.architecture, self.question.abilities.rotates
        return quality_cost(variant.quant, key, value or key, variant.parameters, architecture, rotated=rotated)

    def settle(self) -> None:
        """From now on, look at those micro-batches alone that did best so far."""
        tried = {point.found.settings.micro_batch for point in self._found.values() if point}
        self.settled = tuple(sorted({DEFAULT_MICRO_BATCH, *tried}))

    def forget(self) -> None:
        """What was found, to search again by other rules."""
        self._found.clear()
        self.settled = ()

    def search(self, variant: Variant) -> Search:
        """The search of a variant, for the user's work."""
        if variant.quant not in self._searches:
            self._searches[variant.quant] = self.new_search(variant)
        return self._searches[variant.quant]

    def new_search(self, variant: Variant, hardware: Hardware | None = None) -> Search:
        """One that knows nothing yet, and guards nothing."""
        asked = self.question
        pricing = Pricing(variant.pieces, hardware or asked.hardware, asked.goal.work)
        return Search(pricing, asked.margin_bytes, asked.threads, self.counted, asked.abilities)

    def base(self, context: int) -> Settings:
        """The settings of a server with so much context for each conversation."""
        users, shared = self.question.goal.work.users, self.question.shared_slots
        slots, flash = max(users, shared), self._flash_attention
        return Settings(context * users, slots=slots, unified=shared > users, outputs=slots, flash_attention=flash)

    @cached_property
    def _flash_attention(self) -> bool | None:
        """Decided once, for it is asked for many lengths; None where it can't be used, as llama.cpp has it then."""
        given, users = self.question.given_variant, self.question.goal.work.users
        asked = Settings(context=CELLS_PADDING * users, slots=users, outputs=users)
        memory, _ = self.new_search(given).laid_out(asked)
        return True if memory.kernels.flash_attention else None

    def _micro_batches(self, base: Settings) -> tuple[int, ...]:
        """All that can matter: beyond the whole prompt, a larger one changes nothing but the memory it takes."""
        work, sizes = self.question.goal.work, self.settled or self.question.abilities.micro_batches
        enough = next((size for size in sizes if size >= max(work.prompt, DEFAULT_MICRO_BATCH)), sizes[-1])
        return tuple(size for size in sizes if size <= min(enough, base.context // work.users)) or sizes[:1]

    def by_itself(self, context: int) -> FoundSettings | None:
        """What llama.cpp does with the given file if it is told the context alone."""
        if context not in self._by_itself:
            given, found = self.question.given_variant, None
            if has_room_for(given.blueprint, self.question.hardware):
                search, base = self.new_search(given), self.base(context)
                # Ollama takes a larger micro-batch for a longer context, unless that leaves something to the host
                if self.question.runtime == "Ollama":
                    found = fitted_by_itself(search, base._replace(micro_batch=ollama_micro_batch(context)))
                if found is None or found.placing.first_complete:
                    found = fitted_by_itself(search, base)
            self._by_itself[context] = found
            if found:
                sizes = [need.compute for need in found.memory.needs[:-1]]
                self.search(given).buffers.hint(found.settings, found.placing.kind, sizes)
        return self._by_itself[context]

    def _guards(self, variant: Variant, context: int) -> tuple[Guard, ...]:
        """A long prompt, and a long conversation: both no slower than with what llama.cpp does by itself."""
        now, hardware, guards = self.by_itself(context), self.question.hardware, list[Guard]()
        if now is None:
            return ()
        for work in other_work(self.question.goal.work, context):
            default = Pricing(self.question.given_variant.pieces, hardware._replace(pinned=False), work)
            price = default.price(now.settings, now.placing, now.split, now.threads)
            guards.append(Guard(Pricing(variant.pieces, hardware, work), GUARDED * price.request_s))
        return tuple(guards)


def fitted_by_itself(search: Search, base: Settings) -> FoundSettings | None:
    """What llama.cpp's own fit places, with its price; None where not even the host has room."""
    # The most that fits: of experts those of whole layers while everything else is on GPUs, else whole layers
    mapped = Pricing(search.pieces, search.hardware._replace(pinned=False), search.pricing.work)
    for abilities in (_WHOLE_EXPERTS, _WHOLE_LAYERS) if search.pieces.is_sparse else (_WHOLE_LAYERS,):
        own = Search(mapped, FIT_MARGIN_BYTES, search.threads, search.counted, abilities)
        if abilities.apart:
            own.allowed = lambda placing: not placing.whole
        if found := own.best(base, (base.micro_batch,)):
            return found
    return None


def valued_placing(search: Search, base: Settings, placing: Placing, split: tuple[int, ...]) -> FoundSettings | None:
    """Settings with their price and memory, whether they leave the margin or not; None where they can't load."""
    pieces, hardware = search.pieces, search.hardware
    placing = placing._replace(whole=min(placing.whole, len(pieces.layers)))
    settings = placed_settings(base, placing, pieces, split)
    if len(split) == 1 or not any(split):
        settings = settings._replace(split=())
    setup = Setup(pieces.blueprint, hardware, settings, 0)
    memory = setup.memory()
    room = setup.host_room(memory.needs[:-1])
    if room and memory.needs[-1].total > room.usable_bytes:
        return None
    mapped = Pricing(pieces, hardware._replace(pinned=False), search.pricing.work)
    price = mapped.price(base, placing, split, search.threads)
    return FoundSettings(settings, placing, split, search.threads, price, memory)


def has_room_for(blueprint: Blueprint, hardware: Hardware) -> bool:
    """Whether GPUs and host together hold as much as its weights: what has no room needs no search."""
    shared = max((room.capacity_bytes for room in hardware.rooms if room.unified), default=inf)
    of_host = hardware.host_room.usable_bytes if hardware.host_room else shared
    return LOADED * blueprint.weights_bytes <= sum(hardware.free_bytes) + of_host


def fits_whole(blueprint: Blueprint, hardware: Hardware, goal: Goal, margin_bytes: int) -> bool:
    """With the context that is asked for, and the smallest cache that is as good as any."""
    weights = sum(tensor.bytes for tensor in blueprint.tensors if tensor.name != "token_embd.weight")
    if weights > sum(hardware.free_bytes):  # quick, and what most of them fail
        return False
    users = goal.work.users
    settings = Settings(
        context=goal.context * users, slots=users, outputs=users, key_type=_CACHE, value_type=_CACHE
    )  # fmt: skip
    return Setup(blueprint, hardware, settings, margin_bytes).left() >= 0
