import pytest

from unslow.commands.predict.cases import ExpectedSpeeds, catalog_expectation
from unslow.facts.values import Unknown


def test_expected_speed_is_an_interval_below_the_ceiling() -> None:
    found = catalog_expectation("Llama 3.1 8B", "Q4_K_M", "RTX 4090")
    assert isinstance(found, ExpectedSpeeds)
    assert found.decode.low <= found.decode.mid <= found.decode.high <= found.ceiling_tokens_per_s
    assert found.gpu_layers is None


def test_model_that_does_not_fit_is_expected_to_be_slow() -> None:
    found = catalog_expectation("Llama 3.3 70B", "Q4_K_M", "RTX 4090")
    assert isinstance(found, ExpectedSpeeds)
    assert found.gpu_layers is not None
    two = catalog_expectation("Llama 3.3 70B", "Q4_K_M", "RTX 4090", gpus=2, context=4096)
    assert isinstance(two, ExpectedSpeeds)
    assert two.decode.mid > 3 * found.decode.mid


@pytest.mark.parametrize(
    ("model", "device"),
    [
        ("no such model", "RTX 4090"),
        ("Llama 3.1 8B", "no such card"),
        ("Llama 3.1 8B", "Cerebras WSE-3"),
        ("Llama 3.1 8B", "24GB"),
    ],
)
def test_unknown_model_or_device_gives_a_reason(model: str, device: str) -> None:
    found = catalog_expectation(model, "Q4_K_M", device)
    assert isinstance(found, Unknown)
    assert found.why
