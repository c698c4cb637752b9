"""Questions about plans for vLLM that the tests share."""

from typing import Any

from unslow.catalog.device_names import find_written
from unslow.catalog.weight_parts import parts_of_shape, plain_storage
from unslow.commands._hardware import named_room
from unslow.facts.model import HfShape
from unslow.think.hardware import Hardware
from unslow.think.plan.report import GoalShown
from unslow.think.plan.vllm.choices import Checkpoint, VllmPlanQuestion

LLAMA_8B = HfShape(
    layers=32, width=4096, vocabulary=128256, heads=32, kv_heads=8, key_length=128, value_length=128,
    feed_forward=14336, positions=131072,
)  # fmt: skip
PLAIN = Checkpoint("Llama 8B", "BF16", tuple(parts_of_shape(LLAMA_8B, plain_storage(2))), "f16")


def goal(**changes: Any) -> GoalShown:
    usual = {
        "aim": "speed", "context": 8192, "prompt_tokens": 1000, "kept_tokens": 0, "answer_tokens": 200, "users": 1
    }  # fmt: skip
    return GoalShown(**{**usual, **changes})


def question(device: str = "RTX 4090", cards: int = 1, others: int = 0, **changes: Any) -> VllmPlanQuestion:
    """Llama 8B in 16 bits on cards of which others hold so many bytes; the goal's fields are given like the others."""
    of_goal = {name: changes.pop(name) for name in GoalShown.__struct_fields__ if name in changes}
    found = find_written(device)
    assert found is not None
    rooms = (named_room(device)._replace(others_bytes=others),) * cards
    of_cards = {name: changes.pop(name) for name in ("linked", "link_bytes_per_s") if name in changes}
    hardware = Hardware(rooms, devices=(found,) * cards)._replace(**of_cards)
    asked = VllmPlanQuestion(LLAMA_8B, (PLAIN,), hardware, goal(**of_goal), parameters=8_030_000_000)
    return asked._replace(**changes)
