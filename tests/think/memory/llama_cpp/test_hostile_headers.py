"""Headers with false numbers: a result or a UserError, never a crash, and never an endless graph."""

import random
from contextlib import suppress

import pytest

from unslow.catalog.models import well_known
from unslow.facts.errors import UserError
from unslow.facts.model import Blueprint, MetadataValue
from unslow.think.blueprints import made_up
from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.memory.llama_cpp.need import memory_of

NUMBERS: list[MetadataValue] = [
    0, 1, 2, 3, -1, 63, 255, 4096, 2**31 - 1, 2**31, 2**53, 2**63, -(2**31), 1.5, 1e30, True, "x", "", [], [0],
    [1, 2, 3], [2**31] * 3, [0] * 600,
]  # fmt: skip
MODELS = ("qwen3-0.6b", "gemma-3n-e2b", "deepseek-v2-lite", "qwen3-next-80b-a3b", "granite-4.0-h-tiny", "rwkv7-1.5b")


def mutated(plan: Blueprint, dice: random.Random) -> Blueprint:
    metadata, tensors = dict(plan.metadata), list(plan.tensors)
    for _ in range(dice.randint(1, 3)):
        way, key, place = dice.random(), dice.choice(sorted(metadata)), dice.randrange(len(tensors))
        if way < 0.7:
            metadata[key] = dice.choice(NUMBERS)
        elif way < 0.8:
            del metadata[key]
        elif way < 0.9:
            del tensors[place]
        else:
            shape = tuple(dice.choice([1, 0, 3, 2**40, n]) for n in tensors[place].shape)
            tensors[place] = tensors[place]._replace(shape=shape)
    return Blueprint(architecture=plan.architecture, metadata=metadata, tensors=tensors)


@pytest.mark.no_cover  # graphs that are laid out elsewhere
@pytest.mark.parametrize("model", MODELS)
def test_mutated_header_gives_a_result_or_a_user_error(model: str) -> None:
    plan, dice = made_up(well_known()[model], "Q4_K_M"), random.Random(model)
    for _ in range(12):
        settings = Settings(
            context=dice.choice([1, 8192, 2**27]), slots=dice.choice([1, 4, 256]), unified=dice.random() < 0.5,
            flash_attention=dice.choice([True, False, None]), gpu_layers=dice.choice([-1, 0, 5, 2**31]),
            micro_batch=dice.choice([1, 512]), outputs=dice.choice([0, 4]),
        )  # fmt: skip
        with suppress(UserError):
            memory = memory_of(mutated(plan, dice), settings, [1.0] * dice.choice([0, 1, 2]))
            assert all(part >= 0 for need in memory.needs for part in need)


def test_unknown_tensor_type_counts_its_file_size() -> None:
    plan = made_up(well_known()["qwen3-0.6b"], "Q4_K_M")
    strange = [t._replace(type="type 99") if t.name == "blk.0.ffn_up.weight" else t for t in plan.tensors]
    other = Blueprint(architecture=plan.architecture, metadata=plan.metadata, tensors=strange)
    usual, memory = (memory_of(p, Settings(), [1.0]) for p in (plan, other))
    assert memory.needs[0].weights == pytest.approx(usual.needs[0].weights, rel=0.001)
    assert memory.estimated == "blk.0.ffn_up.weight has an unknown type"
