"""However people write a model's name, it must lead to that model, to a choice, or to names that are near."""

import pytest

from unslow.catalog.model_names import _by_name, find_model
from unslow.catalog.models import well_known
from unslow.facts.errors import UserError


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("llama-3.3-70b", "Llama-3.3-70B"),
        ("llama3.3:70b", "Llama-3.3-70B"),
        ("Llama-3.3-70B-Instruct", "Llama-3.3-70B"),
        ("meta-llama/Llama-3.3-70B-Instruct", "Llama-3.3-70B"),
        ("LLAMA 3.3 70B", "Llama-3.3-70B"),
        ("hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M", "Qwen3-8B"),
        ("Qwen_Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B"),
        ("qwen3_8b", "Qwen3-8B"),
        ("gemma3:27b-it-qat", "Gemma-3-27B"),
        ("google_gemma-3-27b-it", "Gemma-3-27B"),
        ("gpt oss 20b", "gpt-oss-20b"),
        ("deepseek r1", "DeepSeek-R1"),
        ("deepseek-ai_DeepSeek-R1-0528-Qwen3-8B-Q4_K_M.gguf", "DeepSeek-R1-0528-Qwen3-8B"),
        ("DeepSeek-R1-Distill-Qwen-7B-Q4_K_M.gguf", "DeepSeek-R1-Distill-Qwen-7B"),
        ("c4ai-command-r7b-12-2024-Q4_K_M.gguf", "Command-R7B"),
        ("Llama-3.2-3B-Instruct-4bit", "Llama-3.2-3B"),
        ("mistral", "Mistral-7B-v0.3"),
        ("unsloth/gpt-oss-120b-GGUF:F16", "gpt-oss-120b"),
    ],
)
def test_a_name_as_people_write_it(written, name):
    assert find_model(written).name == name


@pytest.mark.parametrize("stem", well_known())
def test_every_name_of_a_model_leads_to_it(stem):
    model = well_known()[stem]
    assert all(find_model(name) is model for name in (stem, *model.names))
    assert all(find_model(name.upper().replace("-", "_")) is model for name in model.names)


def test_no_name_means_two_models():
    assert [stems for stems in _by_name().values() if len(stems) > 1] == []


def test_a_family_is_a_choice():
    with pytest.raises(UserError, match=r"could be Kimi-K2, Kimi-Linear-48B-A3B"):
        find_model("kimi")


@pytest.mark.parametrize(
    ("written", "near"), [("llama-3.1-9b", "Llama-3.1-8B"), ("qwen3-8", "Qwen3-8B"), ("gemma-2-26b", "Gemma-2-27B")]
)
def test_an_unknown_name_is_answered_with_near_ones(written, near):
    with pytest.raises(UserError) as caught:
        find_model(written)
    assert near in caught.value.hint


@pytest.mark.parametrize("written", ["", "   ", "x" * 100_000, "::::", "/", "\x00", "Q4_K_M"])
def test_nonsense_is_an_unknown_model(written):
    with pytest.raises(UserError, match="there is no model"):
        find_model(written)
