import pytest

from unslow.facts.model import Model
from unslow.facts.values import Known
from unslow.think.text.prose import read_words


def model(*lines: str) -> Model:
    return read_words(lines, "r").subject.model


@pytest.mark.parametrize(
    ("line", "name", "quant"),
    [
        ("Model: qwen2.5-coder:32b-instruct-q4_K_M", "Qwen2.5-Coder-32B", "Q4_K_M"),
        ("Llama 3.1 8B Instruct Q8_0 gguf", "Llama-3.1-8B", "Q8_0"),
        ("I run gpt-oss-120b", "gpt-oss-120b", ""),
        ("Model: my-own-thing.gguf", "my-own-thing.gguf", ""),
    ],
)
def test_model_and_quant_are_found_in_prose(line, name, quant):
    found = model(line)
    assert found.name.need() == name
    assert found.quant.value_or("") == quant


def test_no_model_is_invented():
    found = model("it is slow", "the model is large")
    assert not isinstance(found.name, Known)
    assert not isinstance(found.parameters, Known)


def test_label_wins_over_mentions():
    assert model("Llama 3.1 8B is fast.", "Model: Qwen3-30B-A3B").name.need() == "Qwen3-30B-A3B"


def test_catalog_model_gives_parameters_and_layers():
    found = model("Llama 3.1 8B")
    assert found.parameters.need() == pytest.approx(8.03e9, rel=0.01)
    assert found.layers.need() == 32


def test_experts_are_known_from_catalog_or_name():
    assert model("gpt-oss-120b").experts.need() == 128
    assert model("Model: some-new-60b-a5b").experts.need() == 1, "some, since the name only says that there are"
    assert not isinstance(model("Model: some-new-60b").experts, Known)


def test_kv_cache_type_is_not_the_quant():
    assert model("Llama 3.1 8B Q4_K_M with -ctk q8_0").quant.need() == "Q4_K_M"
