"""What is asked of a plan for vLLM, the values that each knob can take, and what a choice leaves for the cache."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from unslow.catalog.weight_parts import Part
from unslow.facts.model import HfShape
from unslow.facts.values import GIB
from unslow.think.hardware import Hardware, Room
from unslow.think.memory import vllm
from unslow.think.memory.vllm import VllmSettings, stage_layers, stage_weight_bytes
from unslow.think.plan.report import GoalShown, RejectedShown
from unslow.think.speed.question import has_links

RECENT = (0, 28)  # the newest version whose memory was read in its sources: what is planned for where nothing runs yet
DEFAULT_SHARE = 0.0  # of `Choice.share`: what the version takes by itself
STEP = 0.01
LEAST_SHARE, MOST_SHARE = 0.80, 0.97
"""Of a card's memory. Less than the first leaves free memory unused; more than the second leaves less than
the driver and the allocator's gaps were seen to take."""
BATCHES = (512, 1024, 2048, 4096, 8192, 16384)
POWERS = frozenset({2, 4, 8, 16, 32, 64})  # numbers of cards that heads can be shared by; and all cards that there are
SEQUENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
FEWER = 4
FP8_CACHE = frozenset({"ada", "hopper", "blackwell", "cdna3", "cdna4"})
"""Chips that have the type; on an RTX 3090 vLLM ends with "type fp8e4nv not supported in this architecture"
(https://github.com/vllm-project/vllm/issues/26431)."""
PACKS_AT_LOAD = frozenset({"ampere", "ga100", "ada", "hopper", "blackwell", "cdna3", "cdna4"})
"""Chips on which vLLM multiplies weights in FP8, and rounds plain ones to it while it loads them
(`--quantization fp8`)."""
FP8_CACHE_SINCE = (0, 11)
"""Since then the V1 engine has kernels for it on more than one architecture
(https://github.com/vllm-project/vllm/pull/24577, September 2025)."""
LATENT_FP8 = frozenset({"hopper", "blackwell"})  # chips whose kernels for latents take FP8 (FlashMLA, CUTLASS)


class Checkpoint(NamedTuple):
    """The model in one format, as vLLM would load it."""

    name: str
    quant: str
    parts: tuple[Part, ...]
    types: str  # The class of its weights' types: f16, q8, q4
    packing: str = ""  # By the catalog's name; empty where nothing is packed
    path: str = ""  # Another folder than the one that was asked for
    packed_at_load: bool = False
    """Whether vLLM makes it of the plain weights (`--quantization fp8`), which lie in memory whole before."""
    align: int = 1  # How many inputs of a matrix share a scale: a part of it on one card must be a multiple


class Choice(NamedTuple):
    """One setting of every knob."""

    checkpoint: int  # Its number among those of the question
    tensor: int
    pipeline: int
    share: float
    context: int
    sequences: int
    batched: int
    kv: str
    eager: bool

    @property
    def cards(self) -> int:
        """How many cards it takes."""
        return self.tensor * self.pipeline


class VllmPlanQuestion(NamedTuple):
    """A plan to be made."""

    shape: HfShape
    checkpoints: tuple[Checkpoint, ...]  # The one that was asked for first
    hardware: Hardware  # Cards of one kind, in the order of their numbers
    goal: GoalShown
    version: tuple[int, int] = RECENT
    parameters: int = 0
    architecture: str = ""
    margin_bytes: int = 0  # What is to stay free on each card, on top of what vLLM needs itself
    exact_context: bool = False  # Whether nothing runs yet and a length was named: then no longer one is offered
    current: Choice | None = None  # What runs now
    measured_pool: int = 0  # Tokens that the cache of what runs now holds by its own count; 0 where it does not say
    prefix_caching: bool = True
    offloaded_bytes: int = 0  # Weights that what runs now keeps on the host (`--cpu-offload-gb`)

    @property
    def trained_context(self) -> int:
        """The longest context that the model was made for."""
        return self.shape.positions or self.goal.context

    @property
    def conversation(self) -> int:
        """Tokens of one conversation at the end of its answer."""
        return self.goal.kept_tokens + self.goal.prompt_tokens + self.goal.answer_tokens

    @property
    def card_bytes(self) -> int:
        """What the smallest card has, as the driver tells programs."""
        return min(room.capacity_bytes - room.reserve_bytes for room in self.hardware.rooms)

    def settings(self, choice: Choice) -> VllmSettings:
        """The choice as the memory of vLLM takes it."""
        return VllmSettings(
            max_model_len=choice.context,
            tensor_parallel=choice.tensor,
            pipeline_parallel=choice.pipeline,
            gpu_memory_utilization=choice.share or None,
            max_num_seqs=choice.sequences,
            max_num_batched_tokens=choice.batched,
            packing=self.checkpoints[choice.checkpoint].packing,
            kv_cache_dtype=choice.kv,
            enforce_eager=choice.eager,
            small_batches="A100" in self.hardware.device.name,
            prefix_caching=self.prefix_caching,
            linked=self.hardware.linked or has_links(self.hardware.device),
            version=self.version,
        )

    def default(self) -> Choice:
        """What vLLM does by itself with the model that was asked for, on one card."""
        bare = Choice(0, 1, 1, DEFAULT_SHARE, self.trained_context, 0, 0, "auto", eager=False)
        settings = self.settings(bare).on_card(self.card_bytes)
        return bare._replace(
            share=settings.utilization, sequences=settings.max_num_seqs, batched=settings.max_num_batched_tokens
        )

    @property
    def now(self) -> Choice:
        """What changes are counted against: what runs, else the defaults."""
        return self.current or self.default()


class Stage(NamedTuple):
    """One stage of a pipeline, as one of its cards sees it."""

    taken: int  # Weights, the peak of a full batch, and what lies beside, within the budget
    weights: int
    block_bytes: int


class Pool:
    """What a choice leaves for the cache: sums of `think.memory.vllm`, each made once for all choices that share it.

    Of every spread the worst end is taken: a plan must start, and what it promises must fit, on the first try.
    """

    def __init__(self, question: VllmPlanQuestion) -> None:
        self.question = question
        self.weights = lru_cache(maxsize=None)(self._weights)
        self._stages: dict[Choice, tuple[Stage, ...]] = {}
        self._groups: dict[Choice, Sequence[vllm.CacheGroup]] = {}
        self._most: dict[Choice, float] = {}

    def blocks(self, choice: Choice) -> int:
        """Blocks of the cache; below 0 where the weights and the first run are more than the share."""
        budget = round(self.question.card_bytes * choice.share)
        return min((budget - s.taken) // s.block_bytes if s.block_bytes else 0 for s in self.stages(choice))

    def holds(self, choice: Choice) -> int:
        """Conversations of the goal's length that the cache holds at once."""
        settings, groups = self._settings(choice), self.groups(choice)
        each = vllm.request_blocks(self.question.shape, settings, groups, self.question.conversation)
        return max(0, self.blocks(choice)) // each if each else choice.sequences

    def longest(self, choice: Choice) -> int:
        """The longest request up to the model's own limit that the cache serves; 0 where vLLM does not start."""
        settings = self._settings(choice)._replace(max_model_len=self.question.trained_context)
        blocks = self.blocks(choice)
        return vllm.longest_request(self.question.shape, settings, self.groups(choice), blocks) if blocks > 0 else 0

    def serves(self, choice: Choice) -> bool:
        """Whether vLLM starts: it must have room for one request of the longest length."""
        settings = self._settings(choice)
        usable = self.blocks(choice) - (1 if settings.release.null_block else 0)
        return vllm.request_blocks(self.question.shape, settings, self.groups(choice), choice.context) <= usable

    def stages(self, choice: Choice) -> tuple[Stage, ...]:
        """Of each stage what it takes and what a block costs there."""
        choice = choice._replace(share=0.0, context=1)
        if choice in self._stages:
            return self._stages[choice]
        shape, settings = self.question.shape, self._settings(choice)
        groups, last = self.groups(choice), choice.pipeline - 1
        beside = vllm.beside_torch(settings).high
        if settings.release.graphs_in_budget:
            beside += vllm.captured_graphs(shape, settings).high
        stages = []
        weights = self.weights(choice.checkpoint, choice.tensor, choice.pipeline)
        for number, layers in enumerate(stage_layers(shape.layers, choice.pipeline)):
            peak = vllm.activation_peak(shape, settings, first=not number, last=number == last).high
            taken = weights[number] + peak + beside
            stages.append(Stage(taken, weights[number], vllm.block_bytes(groups, layers)))
        self._stages[choice] = tuple(stages)
        return self._stages[choice]

    def groups(self, choice: Choice) -> Sequence[vllm.CacheGroup]:
        """The layers that share a block table."""
        choice = choice._replace(pipeline=1, share=0.0, context=1, sequences=1, batched=1, eager=False)
        if choice not in self._groups:
            self._groups[choice] = vllm.cache_groups(self.question.shape, self.question.settings(choice))
        return self._groups[choice]

    def _settings(self, choice: Choice) -> VllmSettings:
        return self.question.settings(choice).on_card(self.question.card_bytes)

    def _weights(self, checkpoint: int, tensor: int, pipeline: int) -> tuple[int, ...]:
        choice = Choice(checkpoint, tensor, pipeline, 0.0, 1, 1, 1, "auto", eager=False)
        parts = self.question.checkpoints[checkpoint].parts
        return tuple(stage_weight_bytes(self.question.shape, parts, self.question.settings(choice)))

    def most(self, choice: Choice) -> float:
        """The largest share in whole hundredths that the fullest of the cards has free; 0 where that is too little."""
        choice = choice._replace(checkpoint=0, share=0.0, context=1, kv="auto")
        if choice in self._most:
            return self._most[choice]
        # vLLM asks whether its share is free after the driver's context was made; graphs come on top in old ones
        settings = self._settings(choice)
        above = vllm.driver_context(settings).high + self.question.margin_bytes
        if not settings.release.graphs_in_budget:
            above += vllm.captured_graphs(self.question.shape, settings).high
        totals = [(room.capacity_bytes - room.reserve_bytes, room) for room in freest(self.question, choice.cards)]
        shares = [(total - room.others_bytes - above) / total for total, room in totals]
        most = round(max(0, int(min(*shares, MOST_SHARE) / STEP + 1e-6)) * STEP, 2)
        now = self.question.current
        if now and (now.tensor, now.pipeline) == (choice.tensor, choice.pipeline):
            most = max(most, now.share)  # it has started with it, whatever is held now
        self._most[choice] = most
        return most


def freest(question: VllmPlanQuestion, count: int) -> list[Room]:
    """The cards that have the most to give, in the order of their numbers."""
    order = sorted(range(len(question.hardware.rooms)), key=lambda n: (-question.hardware.rooms[n].usable_bytes, n))
    return [question.hardware.rooms[n] for n in sorted(order[:count])]


def every_choice(question: VllmPlanQuestion, pool: Pool) -> Iterator[Choice]:
    """Every combination that vLLM accepts, at the largest share and the shortest context that the goal allows."""
    context = min(question.goal.context, question.trained_context)
    # As many as there are users, four times as many or as few, the default, and what runs now
    most, now = question.default().sequences, question.now.sequences
    enough = next((n for n in SEQUENCES if n >= question.goal.users), most)
    at_once = sorted({max(1, enough // FEWER), min(enough, most), min(enough * FEWER, most), most, now})
    others = tuple(product(cache_types(question), (False, True), at_once, batches(question)))
    for number, (tensor, pipeline) in product(range(len(question.checkpoints)), splits(question)):
        if not can_split(question, number, tensor) or not loads(question, pool, number, tensor, pipeline):
            continue
        for kv, eager, sequences, batched in others:
            choice = Choice(number, tensor, pipeline, 0.0, context, sequences, batched, kv, eager)
            if batched >= sequences:  # else vLLM refuses to start
                yield choice._replace(share=pool.most(choice))


def splits(question: VllmPlanQuestion) -> list[tuple[int, int]]:
    """Tensor and pipeline parallel: one card, every layer on several, or whole layers on each of several."""
    cards = [n for n in range(2, len(question.hardware.rooms) + 1) if n in POWERS or n == len(question.hardware.rooms)]
    found = [(1, 1), *((n, 1) for n in cards), *((1, n) for n in cards if n <= question.shape.layers)]
    now = question.current
    if now and now.cards <= len(question.hardware.rooms) and (now.tensor, now.pipeline) not in found:
        found.append((now.tensor, now.pipeline))
    return found


def can_split(question: VllmPlanQuestion, checkpoint: int, tensor: int) -> bool:
    """Whether every layer can be cut in so many parts."""
    if tensor == 1 or (question.current and question.current.tensor == tensor):
        return True  # what runs can be run
    shape, align = question.shape, question.checkpoints[checkpoint].align
    shared = not shape.kv_heads or shape.kv_heads % tensor == 0 or tensor % shape.kv_heads == 0
    widths = [w for w in (shape.feed_forward, shape.expert_width) if w]
    return shape.heads % tensor == 0 and shared and all(width % (tensor * align) == 0 for width in widths)


def loads(question: VllmPlanQuestion, pool: Pool, checkpoint: int, tensor: int, pipeline: int) -> bool:
    """Whether the weights find room while they are loaded: what is packed at load lies there whole before."""
    of = question.checkpoints[checkpoint]
    source = 0 if of.packed_at_load else checkpoint
    room = min(room.usable_bytes for room in freest(question, tensor * pipeline))
    several = Choice(0, tensor, pipeline, 0.0, 1, 1, 1, "auto", eager=True)
    context = vllm.driver_context(question.settings(several)).high
    return max(pool.weights(source, tensor, pipeline)) + context <= room


def cache_types(question: VllmPlanQuestion) -> tuple[str, ...]:
    """auto, and FP8 where chip and version have it; what runs now too."""
    now = (question.current.kv,) if question.current else ()
    return tuple(dict.fromkeys(("auto", *(("fp8",) if not why_no_fp8(question) else ()), *now)))


def why_no_fp8(question: VllmPlanQuestion) -> str:
    """Why the cache can't be kept in FP8; empty where it can."""
    device = question.hardware.device
    if device.family not in FP8_CACHE:
        return f"the {device.name} does not support FP8: vLLM fails at startup"
    if question.version < FP8_CACHE_SINCE:
        version = ".".join(map(str, question.version))
        return f"vLLM {version} has no kernels for it on this GPU; newer versions do"
    if question.shape.kv_rank and device.family not in LATENT_FP8:
        return f"the kernels for this model's latent attention do not support FP8 on the {device.name}"
    return ""


def batches(question: VllmPlanQuestion) -> tuple[int, ...]:
    """From the smallest useful one to the largest default, and what runs now."""
    return tuple(sorted({*BATCHES, question.now.batched}))


def refused_requests(question: VllmPlanQuestion, pool: Pool) -> Iterator[RejectedShown]:
    """What was asked for in vain: cards that can't share the heads, a cache type that the GPU lacks."""
    every = len(question.hardware.rooms)
    if every > 1 and not can_split(question, 0, every):
        because = f"{question.shape.heads} heads and the matrices of this format cannot be split {every} ways"
        yield RejectedShown(what=f"--tensor-parallel-size {every}", because=because)
    if why := why_no_fp8(question):
        yield RejectedShown(what="--kv-cache-dtype fp8", because=why)
    for number, of in enumerate(question.checkpoints):
        if not any(loads(question, pool, number, *split) for split in splits(question)):
            size = sum(part.bytes for part in of.parts) / GIB
            yield RejectedShown(what=of.quant, because=f"its {size:.1f} GiB of weights do not fit on the cards")
