import pytest

from unslow.commands.predict.cases import Expected, expected
from unslow.facts.values import Unknown


def test_what_other_parts_of_the_program_ask() -> None:
    found = expected("Llama 3.1 8B", "Q4_K_M", "RTX 4090")
    assert isinstance(found, Expected)
    assert found.decode.low <= found.decode.mid <= found.decode.high <= found.ceiling_tokens_per_s
    assert found.gpu_layers is None


def test_a_model_that_does_not_fit_is_expected_to_be_slow() -> None:
    found = expected("Llama 3.3 70B", "Q4_K_M", "RTX 4090")
    assert isinstance(found, Expected)
    assert found.gpu_layers is not None
    two = expected("Llama 3.3 70B", "Q4_K_M", "RTX 4090", gpus=2, context=4096)
    assert isinstance(two, Expected)
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
def test_where_nothing_can_be_expected_it_says_why(model: str, device: str) -> None:
    found = expected(model, "Q4_K_M", device)
    assert isinstance(found, Unknown)
    assert found.why
