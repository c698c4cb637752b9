"""What a request takes with given settings, and the other work that must not get slower."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from unslow.catalog.learned_speed import learned_speed
from unslow.think.hardware import Hardware
from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.memory.llama_cpp.need import Memory
from unslow.think.physics import placement
from unslow.think.physics.chip import type_class_of_model
from unslow.think.physics.placement import CROSSINGS_PER_LAYER, F16_BYTES
from unslow.think.physics.terms import total_of_terms
from unslow.think.physics.token_time import crowding_s
from unslow.think.plan.goal import Work
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.question import LlamaPlanQuestion, Variant
from unslow.think.speed.load import Totals
from unslow.think.speed.question import MAPPED_BYTES_PER_S, Host, SpeedQuestion, prompt_token_seconds, step_seconds

if TYPE_CHECKING:
    from unslow.think.physics.terms import Number

Split = tuple[int, ...]
Placings = Sequence[tuple[Placing, Split]]
LENDS_FROM = 32
"""A micro-batch of fewer tokens is computed where its weights lie (`op_offload_min_batch_size` in llama.cpp)."""
LONG_PROMPT = 4096
SHORT_PROMPT = 64
GUARDED = 1.02
"""Other work may take so many times what it takes now: predictions of the same machine are no finer than that."""


class Price(NamedTuple):
    """Seconds of the work, at the depth where it is done."""

    step_s: float  # One token of every conversation
    prompt_token_s: float
    request_s: float

    @property
    def decode_tokens_per_s(self) -> float:
        """Of one conversation."""
        return 1 / self.step_s

    @property
    def prefill_tokens_per_s(self) -> float:
        """Of a prompt."""
        return 1 / self.prompt_token_s


class FoundSettings(NamedTuple):
    """Settings with their price, whose memory was laid out and fits."""

    settings: Settings
    placing: Placing
    split: tuple[int, ...]
    threads: int
    price: Price
    memory: Memory
    needs_no_fit: bool = False
    """Whether everything is on GPUs and leaves them so much that llama.cpp places it so by itself."""


class SearchCount:
    """How much a search looked at."""

    def __init__(self) -> None:
        self.combinations = self.priced = self.laid_out = 0
        self.unproved = 0  # Ways of which not everything was tried that might have been quicker


class Pricing:
    """Prices of placings of one model on one machine, at one kind of work."""

    def __init__(self, pieces: Pieces, hardware: Hardware, work: Work, checked: int = 1) -> None:
        self.pieces, self.hardware, self.work = pieces, hardware, work
        self._checked = checked  # Tokens of each conversation in one step: more than one where guesses are checked
        self.split_mode = placement.SPLIT_BY_LAYER
        self._types = type_class_of_model(pieces.blueprint)

    def price(self, settings: Settings, placing: Placing, split: Split, threads: int) -> Price:
        """What the work takes; `split` is how many layers each GPU has."""
        return self.prices(settings, [(placing, split)], threads)[0]

    def prices(self, settings: Settings, placings: Placings, threads: int) -> list[Price]:
        """What the work takes with each of these placings, computed all at once."""
        found: dict[int, Price] = {}
        mixed = [n for n, (placing, split) in enumerate(placings) if placing.first_complete and any(split)]
        for n, (_, split) in enumerate(placings):
            if n not in mixed:
                question, away = self._on_one_side(settings, split, threads)
                found[n] = self._price_work(settings, question, away, threads)[0]
        if mixed:
            some = [placings[n] for n in mixed]
            question, away = self._on_both_sides(settings, some, threads)
            values = self._price_work(settings, question, away, threads, len(some))
            found |= dict(zip(mixed, values, strict=True))
        return [found[n] for n in range(len(placings))]

    def _price_work(
        self, settings: Settings, q: SpeedQuestion, away: Totals, threads: int, count: int = 1
    ) -> list[Price]:
        """Seconds of the work for one question, or for as many as its numbers are arrays of."""
        work = self.work
        # tokens of one conversation share its keys and values
        steps = step_seconds(q._replace(depth=work.depth / self._checked, tokens=float(work.users * self._checked)))
        steps = steps + self._beside_step(settings, away, threads)
        each = float(min(work.prompt, settings.used_micro_batch))
        tokens = self._prompt_token_s(q._replace(depth=float(work.kept)), settings, away, each)
        # One number for each, where all may share one
        both = ([some] * count if isinstance(some, int | float) else some for some in (steps, tokens))
        pairs = ((float(step), float(token)) for step, token in zip(*both, strict=True))
        return [Price(step, token, work.prompt * token + work.answer * step) for step, token in pairs]

    def _on_one_side(self, settings: Settings, split: Split, threads: int) -> tuple[SpeedQuestion, Totals]:
        """All of it on GPUs, or all on the host; and what is on the host."""
        hardware, pieces = self.hardware, self.pieces
        if any(split):
            return self._question(settings, pieces.all_pieces, [split]), pieces.nothing
        chip = hardware.processors.chip(threads)
        host = Host(pieces.all_pieces, chip, hardware.host_setting._replace(types=self._types, beside_gpu=False))
        sizes = cache_element_bytes(settings)
        return SpeedQuestion(None, chip, host.setting, element_bytes=sizes, host=host), pieces.all_pieces

    def _on_both_sides(self, settings: Settings, placings: Placings, threads: int) -> tuple[SpeedQuestion, Totals]:
        """A part of it on each side, of many placings; and what is on the host."""
        away, held, crossings = self._stack_placings(tuple(placing for placing, _ in placings))
        setting = self.hardware.host_setting._replace(types=self._types, beside_gpu=True)
        chip = self.hardware.processors.chip(threads)
        setting = setting._replace(packed_cache=cache_element_bytes(settings) < F16_BYTES)
        link = self.hardware.link_bytes_per_s  # by which weights on the host reach a GPU that computes a prompt
        lending = link if self.hardware.pinned else min(link, MAPPED_BYTES_PER_S)
        host = Host(away, chip, setting, crossings, lending)
        return self._question(settings, held, [split for _, split in placings])._replace(host=host), away

    def _stack_placings(self, placings: tuple[Placing, ...]) -> tuple[Totals, Totals, Number]:
        """What is on the host and on GPUs, and how often a step crosses; each is stacked once."""
        if placings not in self.pieces.stacked:
            from unslow.think.speed.arrays import stack_values  # noqa: PLC0415 (numpy takes long to load)

            parts = [self._parts(placing) for placing in placings]
            away, held = (stack_values([part[side] for part in parts]) for side in (0, 1))
            # How often a step goes from one side to the other: once for whole layers, there and back for parts of one
            counts = ((self._count_split_layers(placing), bool(placing.whole)) for placing in placings)
            crossings = [float(CROSSINGS_PER_LAYER * parted + whole) for parted, whole in counts]
            self.pieces.stacked[placings] = away, held, stack_values(crossings)
        return self.pieces.stacked[placings]

    def _question(self, settings: Settings, held: Totals, splits: Sequence[Split]) -> SpeedQuestion:
        hardware, sizes = self.hardware, cache_element_bytes(settings)
        if not settings.cache_on_gpu:
            held = held._replace(full_cache=0.0, windowed_cache=0.0)
        setting = hardware.setting._replace(
            types=self._types, fused=settings.flash_attention is not False, packed_cache=sizes < F16_BYTES
        )
        chip, gpus = hardware.taking_turns(splits)
        return SpeedQuestion(
            held, chip, setting, hardware.year, element_bytes=sizes, gpus=gpus, peers=hardware.peers,
            split=self.split_mode,
        )  # fmt: skip

    def _parts(self, placing: Placing) -> tuple[Totals, Totals]:
        """What is on the host, and what on GPUs; each is added up once."""
        if placing not in self.pieces.parted:
            pieces = self.pieces
            away = pieces.rests[placing.whole].and_also(pieces.parts[placing.whole + placing.apart])
            if placing.pieces:
                away = away.and_also(pieces.some(placing.whole + placing.apart, placing.pieces))
            sparse = float(pieces.sparse_layers[placing.first_complete])
            held = pieces.all_pieces.without(away)._replace(
                layers=float(len(pieces.layers) - placing.whole), expert_layers=pieces.sparse_layers[-1] - sparse
            )
            away = away._replace(layers=float(placing.whole + self._count_split_layers(placing)), expert_layers=sparse)
            pieces.parted[placing] = (away, held)
        return self.pieces.parted[placing]

    def _count_split_layers(self, placing: Placing) -> int:
        return self.pieces.parted_layers[placing.first_complete] - self.pieces.parted_layers[placing.whole]

    def _beside_step(self, settings: Settings, away: Totals, threads: int) -> Number:
        """Copies of a cache that lies on the host to the layers that do not, and threads that have no core."""
        hardware, work = self.hardware, self.work
        cores = hardware.processors.logical or hardware.processors.cores
        crowd = away.layers * crowding_s(1.0, threads, cores)
        if not hardware.rooms or settings.cache_on_gpu:
            return crowd
        kept = (self.pieces.all_pieces.full_cache - away.full_cache) * cache_element_bytes(settings)
        copies = kept * placement.copied_cache_s(1.0, work.depth, hardware.link_bytes_per_s) * work.users
        crossings = CROSSINGS_PER_LAYER * (self.pieces.all_pieces.layers - away.layers)
        terms = placement.offload_terms(crossings, hardware.setting.backend)
        return crowd + copies + total_of_terms(terms, learned_speed().factors)

    def _prompt_token_s(self, question: SpeedQuestion, settings: Settings, away: Totals, each: float) -> Number:
        """Of a prompt: GPUs compute it, with weights that the host lends them where enough tokens share a copy."""
        tokens = float(self.work.prompt)
        is_lent = settings.offload_ops and each >= LENDS_FROM
        if question.host is not None and question.totals is not None and not is_lent:
            apart = (question._replace(host=None), question._replace(totals=None))
            return prompt_token_seconds(apart[0], tokens, each) + prompt_token_seconds(apart[1], tokens, each)
        seconds = prompt_token_seconds(question, tokens, each)
        if question.totals is None:
            return seconds
        # attention is computed beside the weights of its layer, and the keys and values of the host's layers follow
        cache = (away if settings.cache_on_gpu else self.pieces.all_pieces).full_cache * cache_element_bytes(settings)
        copies = placement.prompt_copies_s(1.0, self.work.kept + tokens, each, self.hardware.link_bytes_per_s)
        return seconds + cache * copies


def cache_element_bytes(settings: Settings) -> float:
    """Of a key or a value, on average."""
    return sum(placement.element_bytes(kind.lower()) for kind in (settings.key_type, settings.value_type)) / 2


class Guard(NamedTuple):
    """Work within the context that must not get slower than it is now, or than the user wants it."""

    pricing: Pricing
    most_s: float = inf
    most_step_s: float = inf  # Of one token of the answer

    def allows(self, price: Price) -> bool:
        """Whether it is quick enough."""
        return price.request_s <= self.most_s and price.step_s <= self.most_step_s


def floor_of(question: LlamaPlanQuestion, variant: Variant, context: int) -> tuple[Guard, ...]:
    """The speed that the user wants at least: at the usual work, or in a full context where that is the aim."""
    goal = question.goal
    if not goal.least_tokens_per_s:
        return ()
    work = other_work(goal.work, context)[1] if goal.aim == "context" else goal.work
    return (Guard(Pricing(variant.pieces, question.hardware, work), most_step_s=1 / goal.least_tokens_per_s),)


def other_work(work: Work, context: int) -> tuple[Work, Work]:
    """A long prompt in an empty context, and a short one in a full one."""
    answer = min(work.answer, context // 4)
    long = min(LONG_PROMPT, context - answer)
    deep = work._replace(prompt=min(SHORT_PROMPT, long), kept=max(0, context - answer - SHORT_PROMPT), answer=answer)
    return work._replace(prompt=long, kept=0, answer=answer), deep
