"""The model of what runs: by its name, by its shape, or not at all."""

from typing import Any

import pytest

from unslow.commands.models.find import FoundModel
from unslow.commands.plan.running import seen_model
from unslow.facts.model import Model
from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown, reported

SHAPE = {"architecture": "llama", "layers": 32, "width": 4096, "parameters": 8_030_261_312, "vocabulary": 128_256}


def case(**facts: Any) -> Case:
    return Case(model=Model(**{name: reported(value, "test") for name, value in facts.items()}))


@pytest.mark.parametrize(
    "facts",
    [
        {"name": "llama3.1:8b", "quant": "Q4_K_M"},
        {"name": "mine", "path": "/models/Llama-3.1-8B-Instruct-Q4_K_M.gguf", "quant": "Q4_K_M"},
        {"name": "mine", "quant": "Q4_K_M", **SHAPE},
    ],
)
def test_the_catalogue_has_it_by_name_file_or_shape(facts: dict[str, Any]) -> None:
    found = seen_model(None, case(**facts))
    assert isinstance(found, FoundModel)
    assert found.blueprint.count("block_count") == 32
    assert "by the catalogue" in found.notes[0]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"name": "llama3.1:8b", "quant": "Q4_K_M", "layers": 48}, "no model of its name or shape"),
        ({"name": "mine", "quant": "Q4_K_M"}, "no model of its name or shape"),
        ({"name": "llama3.1:8b", "quant": "exl2 4.0bpw"}, "quant is not known"),
    ],
)
def test_another_model_is_not_taken_for_it(facts: dict[str, Any], why: str) -> None:
    found = seen_model(None, case(**facts))
    assert isinstance(found, Unknown)
    assert why in found.why
    assert "unslow plan FILE.gguf" in found.how_to_get
