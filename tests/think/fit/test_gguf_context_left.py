"""The longest context estimated from free memory, against the exact search."""

import pytest

from unslow.catalog.models import find_model
from unslow.commands._hardware import HardwareRequest, named_hardware
from unslow.commands.predict import PredictRequest
from unslow.commands.predict.cases import setup_of
from unslow.think.blueprints import made_up
from unslow.think.fit.gguf import longest_context, most_context
from unslow.think.hardware import Hardware
from unslow.think.memo import one_judgement
from unslow.think.setup import Setup


def setup(model: str, device: str, depth: int = 4096) -> Setup:
    hardware, request = named_hardware(device, 1, HardwareRequest()), PredictRequest(depth=depth)
    assert isinstance(hardware, Hardware)
    found = setup_of(made_up(find_model(model), "Q4_K_M"), hardware, request, "cuda")
    assert found is not None
    return found


@pytest.mark.parametrize(("model", "device"), [("qwen3-8b", "RTX 4060"), ("gemma-3-12b", "RTX 3060")])
def test_estimated_context_is_at_most_the_exact_one_and_close(model: str, device: str) -> None:
    with one_judgement():
        asked = setup(model, device)
        near, exact = longest_context(asked), most_context(asked)
    assert near is not None
    assert exact is not None
    assert 0.7 * exact <= near <= exact


def test_model_that_does_not_fit_has_no_context() -> None:
    assert longest_context(setup("llama-3.3-70b", "RTX 4090")) is None
