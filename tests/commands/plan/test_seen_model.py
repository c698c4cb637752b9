"""The model of a running server: found by its name, by its shape, or not at all."""

from typing import Any

import pytest

from unslow.commands.models.find import FoundModel
from unslow.commands.plan.running import seen_model
from unslow.facts.model import Model
from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown, reported_fact
from unslow.think.case.view import CaseView

SHAPE = {"architecture": "llama", "layers": 32, "width": 4096, "parameters": 8_030_261_312, "vocabulary": 128_256}


def case(**facts: Any) -> Case:
    return Case(model=Model(**{name: reported_fact(value, "test") for name, value in facts.items()}))


@pytest.mark.parametrize(
    "facts",
    [
        {"name": "llama3.1:8b", "quant": "Q4_K_M"},
        {"name": "mine", "path": "/models/Llama-3.1-8B-Instruct-Q4_K_M.gguf", "quant": "Q4_K_M"},
        {"name": "mine", "quant": "Q4_K_M", **SHAPE},
    ],
)
def test_running_model_is_found_by_name_file_or_shape(facts: dict[str, Any]) -> None:
    found = seen_model(None, CaseView(case(**facts)))
    assert isinstance(found, FoundModel)
    assert found.blueprint.count("block_count") == 32
    assert "from the catalog" in found.notes[0]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"name": "llama3.1:8b", "quant": "Q4_K_M", "layers": 48}, "no model with this name or shape"),
        ({"name": "mine", "quant": "Q4_K_M"}, "no model with this name or shape"),
        ({"name": "llama3.1:8b", "quant": "exl2 4.0bpw"}, "quant is unknown"),
    ],
)
def test_model_of_another_shape_or_unknown_quant_is_not_assumed(facts: dict[str, Any], why: str) -> None:
    found = seen_model(None, CaseView(case(**facts)))
    assert isinstance(found, Unknown)
    assert why in found.why
    assert "unslow plan FILE.gguf" in found.how_to_get
