"""What is asked of a plan for vLLM: the model as it can be loaded, the cards, the goal, and what runs now."""

from typing import NamedTuple

from unslow.catalog.weight_parts import Part
from unslow.facts.hf_shape import HfShape
from unslow.think.hardware import Hardware
from unslow.think.memory.vllm.settings import Settings
from unslow.think.plan.report import GoalShown
from unslow.think.speed.chips import has_links

RECENT = (0, 28)
"""The newest version whose memory was read in its sources: what is planned for where nothing runs yet."""
DEFAULT_SHARE = 0.0
"""Of `Choice.share`: what the version takes by itself."""


class Checkpoint(NamedTuple):
    """The model in one format, as vLLM would load it."""

    name: str
    quant: str
    parts: tuple[Part, ...]
    types: str
    """The class of its weights' types: f16, q8, q4."""
    packing: str = ""
    """By the catalogue's name; empty where nothing is packed."""
    path: str = ""
    """Another folder than the one that was asked for."""
    packed_at_load: bool = False
    """Whether vLLM makes it of the plain weights (`--quantization fp8`), which lie in memory whole before."""
    align: int = 1
    """How many inputs of a matrix share a scale: a part of it on one card must be a multiple."""

    @property
    def bits(self) -> float:
        """Of a weight, about: what quality is ordered by where nobody published a figure."""
        return {"f16": 16.0, "q8": 8.0}.get(self.types, 4.0)


class Choice(NamedTuple):
    """One setting of every knob."""

    checkpoint: int
    """Its number among those of the question."""
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


class Question(NamedTuple):
    """A plan to be made."""

    shape: HfShape
    checkpoints: tuple[Checkpoint, ...]
    """The one that was asked for first."""
    hardware: Hardware
    """Cards of one kind, in the order of their numbers."""
    goal: GoalShown
    version: tuple[int, int] = RECENT
    parameters: int = 0
    architecture: str = ""
    margin_bytes: int = 0
    """What is to stay free on each card, on top of what vLLM needs itself."""
    exact_context: bool = False
    """Whether nothing runs yet and a length was named: then no longer one is offered."""
    current: Choice | None = None
    """What runs now."""
    measured_pool: int = 0
    """Tokens that the cache of what runs now holds by its own count; 0 where it does not say."""
    prefix_caching: bool = True
    offloaded_bytes: int = 0
    """Weights that what runs now keeps on the host (`--cpu-offload-gb`)."""

    @property
    def trained(self) -> int:
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

    @property
    def small_batches(self) -> bool:
        """Whether vLLM takes the defaults of a small card whatever the size (A100)."""
        return "A100" in self.hardware.device.name

    def settings(self, choice: Choice) -> Settings:
        """The choice as the memory of vLLM takes it."""
        return Settings(
            max_model_len=choice.context,
            tensor_parallel=choice.tensor,
            pipeline_parallel=choice.pipeline,
            gpu_memory_utilization=choice.share or None,
            max_num_seqs=choice.sequences,
            max_num_batched_tokens=choice.batched,
            packing=self.checkpoints[choice.checkpoint].packing,
            kv_cache_dtype=choice.kv,
            enforce_eager=choice.eager,
            small_batches=self.small_batches,
            prefix_caching=self.prefix_caching,
            linked=self.hardware.linked or has_links(self.hardware.device),
            version=self.version,
        )

    def default(self) -> Choice:
        """What vLLM does by itself with the model that was asked for, on one card."""
        bare = Choice(0, 1, 1, DEFAULT_SHARE, self.trained, 0, 0, "auto", eager=False)
        settings = self.settings(bare).on_card(self.card_bytes)
        return bare._replace(
            share=settings.utilization, sequences=settings.max_num_seqs, batched=settings.max_num_batched_tokens
        )

    @property
    def now(self) -> Choice:
        """What changes are counted against: what runs, else the defaults."""
        return self.current or self.default()
