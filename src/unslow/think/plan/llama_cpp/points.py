"""Points of the space that a plan is chosen from: a quant, a type of cache and a context, each at its best."""

from functools import cached_property
from typing import NamedTuple

from unslow.think.memory.llama_cpp.need import Need
from unslow.think.memory.llama_cpp.settings import CELLS_PADDING, Settings
from unslow.think.plan.goal import Goal, Work
from unslow.think.plan.llama_cpp.by_itself import fitted
from unslow.think.plan.llama_cpp.hardware import Hardware
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.price import Pricing
from unslow.think.plan.llama_cpp.search import Abilities, Counted, Found, Guard, Search
from unslow.think.plan.llama_cpp.variants import Variant
from unslow.think.plan.quality import Cost, cost_of

DEFAULT_CACHE, DEFAULT_MICRO_BATCH = "F16", 512
LONG_PROMPT = 4096
SHORT_PROMPT = 64
NEARLY = 1.03
"""Within so much, plans are alike: the simpler one is taken."""
MUCH = 1.15
"""What a setting must gain that turns against its user once a conversation is longer than usual."""
GUARDED = 1.02
"""Other work may take so many times what it takes now: predictions of the same machine are no finer than that."""


class Draft(NamedTuple):
    """A small model that guesses ahead."""

    name: str
    pieces: Pieces
    file: str = ""
    tokens: int = 4
    """That it guesses at a time."""


class Question(NamedTuple):
    """What a plan is asked for."""

    variants: tuple[Variant, ...]
    """From the finest to the coarsest; one of them is the given one."""
    hardware: Hardware
    goal: Goal
    margin_bytes: int
    threads: int
    abilities: Abilities = Abilities()
    current: "Current | None" = None
    draft: Draft | None = None

    @property
    def given(self) -> Variant:
        """The file that runs, or that the user named."""
        return next(variant for variant in self.variants if variant.given)


class Current(NamedTuple):
    """What runs now, as far as it is known."""

    settings: Settings
    threads: int
    whole: int = 0
    apart: int = 0
    pinned: bool = False
    """Whether its weights with the host lie in memory that a GPU copies from directly."""

    def split(self, layers: int, gpus: int) -> tuple[int, ...]:
        """How many layers each GPU has, where all have about as many."""
        held = 0 if not gpus else layers + 1 - self.whole if self.whole < layers else 0
        return tuple(held // gpus + (n < held % gpus) for n in range(gpus))


class Point(NamedTuple):
    """One choice at its best, with what it costs in quality."""

    variant: Variant
    found: Found
    context: int
    """Of one conversation."""
    cost: Cost

    @property
    def request_s(self) -> float:
        """What the user's work takes."""
        return self.found.price.request_s

    @property
    def increase(self) -> float:
        """Of perplexity; what nobody published counts as much, so that it is never taken for nothing."""
        known = self.cost.perplexity_increase
        return 1.0 if known is None else known


class Points:
    """All searches of one question; what was found is kept."""

    def __init__(self, question: Question) -> None:
        self.question, self.counted = question, Counted()
        self._searches: dict[str, Search] = {}
        self._found: dict[tuple[str, str, str, int], Point | None] = {}
        self._may_be_far = False
        self._by_itself: dict[int, Found | None] = {}
        self.settled: tuple[int, ...] = ()
        """Micro-batches that did best where all were tried: others are looked at with these alone. Empty: with all."""
        self.unguarded = False
        """Whether nothing was found that keeps all other work as quick as it is."""

    def at(self, variant: Variant, key: str, value: str, context: int) -> Point | None:
        """The quickest settings of this choice; None where nothing fits."""
        name = (variant.quant, key, value, context)
        if name not in self._found:
            self._found[name] = self._best(variant, key, value, context)
        return self._found[name]

    def _best(self, variant: Variant, key: str, value: str, context: int) -> Point | None:
        search = self.search(variant)
        base = self.base(context)._replace(key_type=key, value_type=value)
        compared = variant.given and context == self.question.goal.context and self.question.goal.aim == "speed"
        free = self.unguarded or self.question.goal.alone
        search.guards = self._guards(variant, context) if compared and not free else ()
        self._may_be_far = compared  # without anything to compare it with, a cache stays beside its layers
        found = self._quickest(search, base, context)
        search.far_cache = found is not None and not found.settings.cache_on_gpu
        usual = search.best(base, (DEFAULT_MICRO_BATCH,)) if found and self._is_unusual(found) else None
        if found and usual and usual.price.request_s <= NEARLY * found.price.request_s:
            found = usual  # what is nearly as quick and needs one setting less
        return None if found is None else self.point(variant, found, context)

    def alone(self, variant: Variant, key: str, value: str, context: int) -> Point | None:
        """All of it on one of several GPUs; None where there is but one, or none has the room."""
        hardware, base = self.question.hardware, self.base(context)._replace(key_type=key, value_type=value)
        if len(hardware.rooms) == 1:
            return None
        tried = (self._on_one(variant, base, number) for number in range(len(hardware.rooms)))
        found = min((each for each in tried if each), key=lambda each: each.price.request_s, default=None)
        return None if found is None else self.point(variant, found, context)

    def _on_one(self, variant: Variant, base: Settings, number: int) -> Found | None:
        hardware = self.question.hardware
        one = hardware._replace(rooms=hardware.rooms[number : number + 1], chips=hardware.chips[number : number + 1])
        search = self._new_search(variant, self.question.goal.work, one)
        search.allowed = lambda placing: not placing.first_complete
        search.far_cache = False
        found = search.best(base, (DEFAULT_MICRO_BATCH,))
        if found is None:
            return None
        own, host = found.memory.needs
        needs = [own if n == number else Need(0, 0, 0) for n in range(len(hardware.rooms))]
        split = tuple(found.split[0] if n == number else 0 for n in range(len(hardware.rooms)))
        return found._replace(split=split, memory=found.memory._replace(needs=[*needs, host]))

    def _quickest(self, search: Search, base: Settings, context: int) -> Found | None:
        """The cache goes to the host only where that gains much: conversations get deeper than they were thought to."""
        sizes = self._micro_batches(context)
        search.far_cache = False
        near = search.best(base, sizes)
        if not self._may_be_far or (near and not near.placing.first_complete):
            return near
        search.far_cache = True
        far = search.best(base, (near.settings.micro_batch,) if near else sizes)
        return far if far and (near is None or far.price.request_s * MUCH < near.price.request_s) else near

    def _is_unusual(self, found: Found) -> bool:
        return found.settings.micro_batch != DEFAULT_MICRO_BATCH

    def point(self, variant: Variant, found: Found, context: int) -> Point:
        """Settings with what they cost in quality."""
        settings = found.settings
        return Point(variant, found, context, self.cost(variant, settings.key_type, settings.value_type))

    def cost(self, variant: Variant, key: str, value: str = "") -> Cost:
        """What a quant with such a cache costs in quality."""
        return cost_of(variant.quant, key, value or key, variant.parameters, variant.blueprint.architecture)

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
            self._searches[variant.quant] = self._new_search(variant, self.question.goal.work)
        return self._searches[variant.quant]

    def _new_search(self, variant: Variant, work: Work, hardware: Hardware | None = None) -> Search:
        asked = self.question
        pricing = Pricing(variant.pieces, hardware or asked.hardware, work)
        return Search(pricing, asked.margin_bytes, asked.threads, self.counted, asked.abilities)

    def base(self, context: int) -> Settings:
        """The settings of a server with so much context for each conversation."""
        users = self.question.goal.work.users
        return Settings(context=context * users, slots=users, outputs=users, flash_attention=self._flash_attention)

    @cached_property
    def _flash_attention(self) -> bool | None:
        """Decided once, for it is asked for many lengths; None where it can't be used, as llama.cpp has it then."""
        given, users = self.question.given, self.question.goal.work.users
        asked = Settings(context=CELLS_PADDING * users, slots=users, outputs=users)
        memory = self._new_search(given, self.question.goal.work).laid_out(asked)
        return True if memory.kernels.flash_attention else None

    def _micro_batches(self, context: int) -> tuple[int, ...]:
        """All that can matter: beyond the whole prompt, a larger one changes nothing but the memory it takes."""
        longest = max(self.question.goal.work.prompt, DEFAULT_MICRO_BATCH)
        sizes = self.settled or self.question.abilities.micro_batches
        enough = next((size for size in sizes if size >= longest), sizes[-1])
        return tuple(size for size in sizes if size <= min(enough, context)) or sizes[:1]

    def by_itself(self, context: int) -> Found | None:
        """What llama.cpp does with the given file if it is told the context alone."""
        if context not in self._by_itself:
            given = self.question.given
            search = self._new_search(given, self.question.goal.work)
            self._by_itself[context] = fitted(search, self.base(context))
        return self._by_itself[context]

    def _guards(self, variant: Variant, context: int) -> tuple[Guard, ...]:
        """A long prompt, and a long conversation: both no slower than they are by default."""
        found, guards = self.by_itself(context), []
        if found is None:
            return ()
        for work in self.other_work(context):
            default = Pricing(self.question.given.pieces, self.question.hardware._replace(pinned=False), work)
            price = default.price(found.settings, found.placing, found.split, found.threads)
            guards.append(Guard(Pricing(variant.pieces, self.question.hardware, work), GUARDED * price.request_s))
        return tuple(guards)

    def other_work(self, context: int) -> tuple[Work, ...]:
        """What the user may also do within a context."""
        work = self.question.goal.work
        answer = min(work.answer, context // 4)
        long = min(LONG_PROMPT, context - answer)
        deep = max(0, context - answer - SHORT_PROMPT)
        return (
            work._replace(prompt=long, kept=0, answer=answer),
            work._replace(prompt=min(SHORT_PROMPT, long), kept=deep, answer=answer),
        )
