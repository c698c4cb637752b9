import pytest

from unslow.commands.predict.cases import Expected, expected
from unslow.facts.values import Unknown


def test_what_other_parts_of_the_program_ask() -> None:
    found = expected("Llama 3.1 8B", "Q4_K_M", "RTX 4090")
    assert isinstance(found, Expected)
    assert found.decode.low <= found.decode.mid <= found.decode.high <= found.ceiling_tokens_per_s
    assert found.prefill.mid > 10 * found.decode.mid
    assert (found.group, found.gpu_layers) == ("dense gpu", None)
    assert found.basis.startswith("catalog")


def test_a_model_that_does_not_fit_is_expected_to_be_slow() -> None:
    found = expected("Llama 3.3 70B", "Q4_K_M", "RTX 4090")
    assert isinstance(found, Expected)
    assert found.group == "partial offload"
    two = expected("Llama 3.3 70B", "Q4_K_M", "RTX 4090", gpus=2, context=4096)
    assert isinstance(two, Expected)
    assert two.decode.mid > 3 * found.decode.mid


@pytest.mark.parametrize(
    ("model", "device", "backend"),
    [("no such model", "RTX 4090", ""), ("Llama 3.1 8B", "no such card", ""), ("Llama 3.1 8B", "RTX 4090", "abacus"),
     ("Llama 3.1 8B", "Cerebras WSE-3", ""), ("Llama 3.1 8B", "24GB", "")],
)  # fmt: skip
def test_where_nothing_can_be_expected_it_says_why(model: str, device: str, backend: str) -> None:
    found = expected(model, "Q4_K_M", device, backend=backend)
    assert isinstance(found, Unknown)
    assert found.why
