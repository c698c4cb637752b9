"""The cases: a model's shape, the memory that is left to it, and the context that it must have."""

from typing import NamedTuple

from lab.faults.large_models import GEMMA_12B, LLAMA_8B, LLAMA_70B, SHAPES

from unslow.catalog.models import Shape, WellKnown, model_at

MOE, TINY = "moe64", "tiny"
QUANT = "Q4_K_M"
SHORT, LONG = "short", "long"
ALONE = "alone"
"""The short prompt, and nothing else to be done within the context."""
SHORT_TOKENS, LONG_TOKENS = 32, 4096
SPARE_TOKENS = 32


class Case(NamedTuple):
    """One row of the table, at two prompts."""

    name: str
    group: str
    model: str
    """The name of the file, without its ending."""
    free_gib: float
    context: int
    answer_tokens: int = 64
    life_s: float = 25.0
    """About how long one life of a server takes, before one was seen."""

    def room_for(self, prompt_tokens: int) -> int:
        """The same prompt, or as much of it as leaves the answer its place."""
        return min(prompt_tokens, self.context - self.answer_tokens - SPARE_TOKENS)


def _case(group: str, model: str, free_gib: int, thousands: int, life_s: float, answer: int = 64) -> Case:
    return Case(f"{group}_{free_gib}g_{thousands}k", group, model, free_gib, thousands * 1024, answer, life_s)


CASES = (
    *(_case("8b", LLAMA_8B, gib, 16, 25) for gib in (4, 5, 6, 7)),
    *(_case("8b", LLAMA_8B, 5, thousands, 25) for thousands in (4, 32)),
    _case("8b", LLAMA_8B, 3, 8, 30),
    *(_case("moe", MOE, gib, 8, 15) for gib in (3, 4)),
    _case("moe", MOE, 4, 32, 15),
    *(_case("gemma", GEMMA_12B, gib, 8, 25) for gib in (6, 7)),
    *(_case("70b", LLAMA_70B, gib, 8, 70, 24) for gib in (24, 32)),
    Case("tiny", TINY, TINY, 1, 2048, 16, 10),
)
"""The last is for trying the lab itself."""

_MOE = WellKnown(
    names=("MoE-64x8",),
    architecture="qwen3moe",
    parameters=7_902_000_000,
    source="made up: Qwen3-30B-A3B with half the layers and half the experts",
    shape=Shape(
        layers=24,
        width=2048,
        vocabulary=49152,
        context_trained=32768,
        heads=32,
        kv_heads=4,
        key_length=128,
        feed_forward=768,
        experts=64,
        experts_used=8,
        expert_width=768,
    ),
)


def shape_of(model: str) -> tuple[WellKnown, str]:
    """The shape and the mix of a file."""
    if model == MOE:
        return _MOE, QUANT
    stem, quant = ("smollm2-135m", QUANT) if model == TINY else SHAPES[model]
    return model_at(stem), quant


def chosen(groups: list[str], names: list[str]) -> list[Case]:
    """The cases of these groups and names, all real ones where none are asked for; LookupError of one unknown."""
    unknown = {*groups, *names} - {c.group for c in CASES} - {c.name for c in CASES}
    if unknown:
        raise LookupError(f"no such case: {', '.join(sorted(unknown))}")
    asked = [case for case in CASES if case.group in groups or case.name in names]
    return asked or [case for case in CASES if case.group != TINY]
