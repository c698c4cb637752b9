"""How long a request takes under a choice: its own prompt and answer, those of the others, and the wait for a place.

Users ask again as soon as they have their answer. Then, with so many at once (`at_once`) in the cache, a round of all
of them takes as long as their prompts one after another and the steps of one answer; who does not fit waits for the
next round (Little's law: users / throughput).
"""

import math
from functools import lru_cache
from typing import NamedTuple

from unslow.catalog.learned_speed import spread_of
from unslow.facts.model import HfShape
from unslow.think.physics.chip import SpeedSetting
from unslow.think.physics.placement import LINK, SPLIT_BY_LAYER, SPLIT_BY_TENSOR
from unslow.think.physics.terms import Interval
from unslow.think.plan.vllm.choices import Choice, VllmPlanQuestion
from unslow.think.speed import question as speeds
from unslow.think.speed.load import Totals, hf_load, totals
from unslow.think.speed.question import USUAL_LINK, SpeedQuestion, gpu_chip, has_peers, trust_in, widen_interval
from unslow.think.speed.rows import gpu_group

BATCHED = "batched"  # the group that the spread of several conversations was learned in
THIS_YEAR = 2026.8  # of the newest builds that were measured
LINK_USED = 0.6  # of what a link carries in one direction, for messages of a few MiB
USUAL_BRIDGE = 112.5e9
"""Of an NVLink bridge between two cards, both directions together, where the catalog does not tell (RTX 3090)."""
READS_FP8 = frozenset({"hopper", "blackwell"})
"""Chips whose attention multiplies FP8 itself; others unpack every key and value first (vLLM's page on quantised
caches: with FlashAttention 3 queries, keys and values are all in FP8)."""


class ServedSpeed(NamedTuple):
    """What one conversation gets, and all together."""

    decode: Interval  # Tokens per second of one conversation; prompts of the others are read between its tokens
    prefill: Interval
    request_s: Interval
    at_once: int  # Conversations that are in the cache at the same time
    keeps: bool  # Whether what was read before is still in the cache when the next question comes


class Pace:
    """The speed of a question's choices; what several of them share is computed once."""

    def __init__(self, question: VllmPlanQuestion) -> None:
        self.question = question
        self.step = lru_cache(maxsize=None)(self._step)
        self.prompt = lru_cache(maxsize=None)(self._prompt)
        self._totals: dict[int, Totals] = {}  # By the number of the checkpoint
        self._chip = gpu_chip(question.hardware.device)
        self.linked = question.hardware.linked or speeds.has_links(question.hardware.device)
        """Whether the cards have links of their own."""

    def serve(self, choice: Choice, at_once: int, users: int, *, keeps: bool) -> ServedSpeed:
        """With so many users, of whom so many find a place at once."""
        goal = self.question.goal
        at_once = max(1, min(at_once, users))
        # The same for all choices that are as fast with as many conversations
        alike = choice._replace(share=0.0, context=0, sequences=0, batched=0)
        step = self.step(alike, at_once)
        read = goal.prompt_tokens + (0 if keeps else goal.kept_tokens)
        start = goal.kept_tokens if keeps else 0
        prompt = self.prompt(alike, read, start, choice.batched, at_once)
        answer = goal.answer_tokens
        both = list(zip(prompt, step, strict=True))
        felt = (answer / (answer / each + (at_once - 1) * read / fast) for fast, each in both)
        high, mid, low = (users * read / fast + users / at_once * answer / each for fast, each in both)
        return ServedSpeed(Interval(*felt), prompt, Interval(low, mid, high), at_once, keeps)

    def _step(self, choice: Choice, at_once: int) -> Interval:
        """Tokens per second of each conversation; stages of a pipeline work on different ones at the same time."""
        goal = self.question.goal
        depth = goal.kept_tokens + goal.prompt_tokens + goal.answer_tokens / 2
        together = float(math.ceil(at_once / choice.pipeline))
        q = self._ask(choice, depth)._replace(tokens=together)
        found = speeds.decode_outcome(q, gpu_group(self.question.shape, choice.cards, depth))
        rate = found.rate
        if together > 1:  # the interval of several conversations was measured apart
            spread = spread_of(BATCHED, q.setting.backend)
            rate = Interval(min(rate.low, rate.mid * spread.low), rate.mid, max(rate.high, rate.mid * spread.high))
        rate = widen_interval(rate, trust_in(self.question.hardware.device, q.setting).wider, found.ceiling)
        more = self._narrow(choice) + (together - 1) * self._sent_s(choice)
        share = found.seconds / (found.seconds + more)
        return Interval(*(end * share / together for end in rate))

    def _narrow(self, choice: Choice) -> float:
        """Seconds that a token takes longer where the slots have few lanes."""
        link = self.question.hardware.link_bytes_per_s
        if choice.tensor == 1 or self.linked or not 0 < link < USUAL_LINK:
            return 0.0
        return _ring_bytes(self.question.shape, choice.tensor) * (1 / link - 1 / USUAL_LINK)

    def _sent_s(self, choice: Choice) -> float:
        """Seconds for what cards send each other for one token, beside others in the same step; none with one card."""
        device, slot = self.question.hardware.device, self.question.hardware.link_bytes_per_s or USUAL_LINK
        if self.linked:
            each_way = (device.link_bytes_per_s or USUAL_BRIDGE) / 2 * LINK_USED
        else:
            each_way = min(slot, USUAL_LINK) / (1 if has_peers(device) else 2)  # through the host's memory: up and down
        return _ring_bytes(self.question.shape, choice.tensor) / each_way

    def _prompt(self, choice: Choice, tokens: int, start: int, batch: int, prompts: int) -> Interval:
        """Prompt tokens per second of so many prompts together."""
        q = self._ask(choice, float(start))
        found = speeds.prefill_outcome(q, float(tokens), float(batch), float(prompts))
        wide = widen_interval(found.rate, trust_in(self.question.hardware.device, q.setting).wider, found.ceiling)
        # Seconds of a prompt token for what cards tell each other, beyond what was counted for it. The physics
        # learned it over PCIe, where it grows with every card. Over links of their own each card sends to the next
        # one only, so that it grows no more.
        more = self._narrow(choice)
        if choice.tensor > 1 and self.linked:
            more = self._sent_s(choice) - found.parts.get(LINK, 0.0)
        share = found.seconds / (found.seconds + more)
        return Interval(*(end * share for end in wide))

    def _ask(self, choice: Choice, depth: float) -> SpeedQuestion:
        device, cards = self.question.hardware.device, choice.tensor if choice.tensor > 1 else choice.pipeline
        split = SPLIT_BY_TENSOR if choice.tensor > 1 else SPLIT_BY_LAYER
        of = self.question.checkpoints[choice.checkpoint]
        if choice.checkpoint not in self._totals:
            self._totals[choice.checkpoint] = totals(hf_load(self.question.shape, of.parts, of.types))
        setting = SpeedSetting(
            backend="rocm" if device.vendor == "AMD" else "cuda",
            family=device.family,
            device=device.name,
            types=of.types,
            runtime="vllm",
            packed_cache=choice.kv.startswith("fp8") and device.family not in READS_FP8,
            linked=self.linked,
            graphs=not choice.eager,
        )
        return SpeedQuestion(
            self._totals[choice.checkpoint], self._chip, setting, THIS_YEAR, depth,
            1.0 if choice.kv.startswith("fp8") else 2.0, gpus=float(cards), split=split,
            peers=has_peers(device) or split == SPLIT_BY_LAYER,
        )  # fmt: skip


def _ring_bytes(shape: HfShape, cards: int) -> float:
    """What a card sends for one token: after attention and after the feed-forward of every layer, all sum up."""
    return 2 * shape.layers * shape.width * 2.0 * 2 * (cards - 1) / cards
