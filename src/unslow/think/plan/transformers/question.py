"""What is asked of a plan for Transformers: the model, the cards, the host, the goal, and what runs now."""

from typing import NamedTuple

from unslow.catalog.weight_parts import Part
from unslow.facts.hf_shape import HfShape
from unslow.think.hardware import Hardware
from unslow.think.memory.transformers.settings import Settings
from unslow.think.plan.report import GoalShown

RECENT = (5, 17)
"""The version whose memory was measured: what is planned for where nothing runs yet."""
AS_STORED_SINCE = (5, 0)
"""From here on weights are loaded as they are stored; before, as float32 unless `dtype` says otherwise."""
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
ALL_ON_ONE, SPREAD_OUT = "cuda:0", "auto"
"""Values of `device_map`."""


class Choice(NamedTuple):
    """One setting of every knob."""

    dtype: str
    attention: str
    cache: str
    device_map: str

    @property
    def compiled(self) -> bool:
        """Whether `generate` compiles the step, as it does for a cache whose shape stays the same."""
        return self.cache == "static"


class Question(NamedTuple):
    """A plan to be made."""

    shape: HfShape
    parts: tuple[Part, ...]
    """As they are stored."""
    quant: str
    types: str
    """The class of the weights' types: f16, q8, q4."""
    hardware: Hardware
    """Cards of one kind, and the host."""
    goal: GoalShown
    stored: str = "bfloat16"
    """The type of numbers that are not packed."""
    packed: bool = False
    version: tuple[int, int] = RECENT
    has_flash: bool | None = None
    """Whether the package flash-attn is there; None where nobody looked."""
    parameters: int = 0
    architecture: str = ""
    margin_bytes: int = 0
    current: Choice | None = None

    @property
    def trained(self) -> int:
        """The longest context that the model was made for."""
        return self.shape.positions or self.goal.context

    @property
    def now(self) -> Choice:
        """What changes are counted against: what runs, else what people write first."""
        dtype = self.stored if self.version >= AS_STORED_SINCE or self.packed else "float32"
        return self.current or Choice(dtype, "sdpa", "dynamic", SPREAD_OUT)

    def parts_as(self, dtype: str) -> tuple[Part, ...]:
        """The weights as they lie in memory: plain ones in the type that is asked for."""
        factor = 1.0 if self.packed else BYTES[dtype] / BYTES[self.stored]
        return self.parts if factor == 1.0 else tuple(p._replace(bytes=round(p.bytes * factor)) for p in self.parts)

    def settings(self, choice: Choice, tokens: int) -> Settings:
        """The choice as the memory of Transformers takes it, for conversations of so many tokens."""
        answer = min(self.goal.answer_tokens, max(1, tokens - 1))
        return Settings(
            prompt_tokens=max(1, tokens - answer),
            new_tokens=answer,
            batch=self.goal.users,
            cache="static" if choice.cache == "static" else "dynamic",
            attention="flash" if choice.attention.startswith("flash") else choice.attention,
            padded=self.goal.users > 1,
            dtype_bytes=BYTES[choice.dtype],
            device_map="single" if choice.device_map == ALL_ON_ONE else "auto",
            version=self.version,
        )
