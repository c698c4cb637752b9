"""What a choice leaves for the cache: the sums of `think.memory.vllm`, each made once for all choices that share it.

Of every spread the worst end is taken: a plan must start, and what it promises must fit, on the first try.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from unslow.think.hardware import Room
from unslow.think.memory.held import Held, exactly
from unslow.think.memory.vllm import cache, profile
from unslow.think.memory.vllm.settings import Settings, stage_layers
from unslow.think.memory.vllm.weights import stage_weight_bytes
from unslow.think.plan.vllm.question import Choice, Question

STEP = 0.01
LEAST_SHARE, MOST_SHARE = 0.80, 0.97
"""Of a card's memory. Less than the first leaves memory unused that nobody holds; more than the second leaves less than
the driver and the allocator's gaps were seen to take."""


class Stage(NamedTuple):
    """One stage of a pipeline, as one of its cards sees it."""

    taken: int
    """Weights, the peak of a full batch, and what lies beside, within the budget."""
    weights: int
    block_bytes: int


class Pool:
    """The memory of a question; everything is computed once."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.weights = lru_cache(maxsize=None)(self._weights)
        self._stages = lru_cache(maxsize=None)(self._new_stages)
        self._groups = lru_cache(maxsize=None)(self._new_groups)
        self.most_share = lru_cache(maxsize=None)(self._most_share)

    def blocks(self, choice: Choice) -> int:
        """Blocks of the cache; below 0 where the weights and the first run are more than the share."""
        total = self.question.card_bytes
        return min(_blocks(round(total * choice.share), stage) for stage in self.stages(choice))

    def holds(self, choice: Choice) -> int:
        """Conversations of the goal's length that the cache holds at once."""
        settings, groups = self._settings(choice), self.groups(choice)
        each = cache.request_blocks(self.question.shape, settings, groups, self.question.conversation)
        return max(0, self.blocks(choice)) // each if each else choice.sequences

    def longest(self, choice: Choice) -> int:
        """The longest request up to the model's own limit that the cache serves; 0 where vLLM does not start."""
        settings = self._settings(choice)._replace(max_model_len=self.question.trained)
        blocks = self.blocks(choice)
        return cache.longest_request(self.question.shape, settings, self.groups(choice), blocks) if blocks > 0 else 0

    def serves(self, choice: Choice) -> bool:
        """Whether vLLM starts: it must have room for one request of the longest length."""
        settings = self._settings(choice)
        usable = self.blocks(choice) - (1 if settings.release.null_block else 0)
        return cache.request_blocks(self.question.shape, settings, self.groups(choice), choice.context) <= usable

    def stages(self, choice: Choice) -> tuple[Stage, ...]:
        """Of each stage what it takes and what a block costs there."""
        return self._stages(choice._replace(share=0.0, context=1))

    def groups(self, choice: Choice) -> Sequence[cache.Group]:
        """The layers that share a block table."""
        return self._groups(choice.checkpoint, choice.tensor, choice.kv)

    def _settings(self, choice: Choice) -> Settings:
        return self.question.settings(choice).on_card(self.question.card_bytes)

    def _new_groups(self, checkpoint: int, tensor: int, kv: str) -> Sequence[cache.Group]:
        choice = Choice(checkpoint, tensor, 1, 0.0, 1, 1, 1, kv, eager=False)
        return cache.cache_groups(self.question.shape, self.question.settings(choice))

    def _weights(self, checkpoint: int, tensor: int, pipeline: int) -> tuple[int, ...]:
        choice = Choice(checkpoint, tensor, pipeline, 0.0, 1, 1, 1, "auto", eager=False)
        parts = self.question.checkpoints[checkpoint].parts
        return tuple(stage_weight_bytes(self.question.shape, parts, self.question.settings(choice)))

    def _new_stages(self, choice: Choice) -> tuple[Stage, ...]:
        shape, settings = self.question.shape, self._settings(choice)
        groups, last = self.groups(choice), choice.pipeline - 1
        beside = profile.beside_torch(settings).high
        if settings.release.graphs_in_budget:
            beside += profile.graphs(shape, settings).high
        stages = []
        weights = self.weights(choice.checkpoint, choice.tensor, choice.pipeline)
        for number, layers in enumerate(stage_layers(shape.layers, choice.pipeline)):
            peak = profile.activation_peak(shape, settings, first=not number, last=number == last).high
            taken = weights[number] + peak + beside
            stages.append(Stage(taken, weights[number], cache.block_bytes(groups, layers)))
        return tuple(stages)

    def _most_share(self, tensor: int, pipeline: int, sequences: int, batched: int, *, eager: bool) -> float:
        """The largest share in whole hundredths that the fullest of the cards has free; 0 where that is too little.

        vLLM asks whether its share is free after the driver's context was made; graphs come on top in old versions.
        """
        choice = Choice(0, tensor, pipeline, 0.0, 1, sequences, batched, "auto", eager=eager)
        settings = self._settings(choice)
        above = profile.context(settings).high + self.question.margin_bytes
        if not settings.release.graphs_in_budget:
            above += profile.graphs(self.question.shape, settings).high
        shares = []
        for room in freest(self.question, choice.cards):
            total = room.capacity_bytes - room.reserve_bytes
            shares.append((total - room.others_bytes - above) / total)
        most = round(max(0, int(min(*shares, MOST_SHARE) / STEP + 1e-6)) * STEP, 2)
        now = self.question.current
        if now and (now.tensor, now.pipeline) == (tensor, pipeline):
            return max(most, now.share)  # it has started with it, whatever is held now
        return most

    def held(self, choice: Choice) -> list[Held]:
        """What each card most likely holds, stage by stage: the cache takes all that is left of the share."""
        shape, settings = self.question.shape, self._settings(choice)
        budget, graphs = round(self.question.card_bytes * choice.share), profile.graphs(shape, settings)
        beside, context = profile.beside_torch(settings).mid, profile.context(settings).mid
        counted = graphs.mid if settings.release.graphs_in_budget else 0
        last, stages = choice.pipeline - 1, self.stages(choice)
        peaks = [profile.activation_peak(shape, settings, first=not n, last=n == last) for n in range(choice.pipeline)]
        left = [budget - s.weights - peak.mid - beside - counted for s, peak in zip(stages, peaks, strict=True)]
        blocks = max(0, min(room // max(1, s.block_bytes) for s, room in zip(stages, left, strict=True)))
        other = exactly(context + beside + graphs.mid)
        held = [Held(s.weights, blocks * s.block_bytes, peak, other) for s, peak in zip(stages, peaks, strict=True)]
        return [one for one in held for _ in range(choice.tensor)]

    def most(self, choice: Choice) -> float:
        """The largest share for this choice."""
        return self.most_share(choice.tensor, choice.pipeline, choice.sequences, choice.batched, eager=choice.eager)


def freest(question: Question, count: int) -> list[Room]:
    """The cards that have the most to give, in the order of their numbers."""
    order = sorted(range(len(question.hardware.rooms)), key=lambda n: (-question.hardware.rooms[n].usable_bytes, n))
    return [question.hardware.rooms[n] for n in sorted(order[:count])]


def _blocks(budget: int, stage: Stage) -> int:
    return (budget - stage.taken) // stage.block_bytes if stage.block_bytes else 0
