"""However a model's name is written, it leads to that model, to a choice, or to similar names."""

import pytest

from unslow.catalog.models import _stems_by_key, all_names, find_model, listed_models, well_known
from unslow.catalog.quants import split_quant
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
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen2.5-7B"),
        ("unsloth/Llama-3.2-3B-Instruct-unsloth-bnb-4bit", "Llama-3.2-3B"),
        ("mradermacher/Llama-3.1-8B-Instruct-i1-GGUF:i1-Q4_K_M", "Llama-3.1-8B"),
        ("qwen3-8b@q4_k_m", "Qwen3-8B"),
        ("qwen3-embedding:0.6b", "Qwen3-Embedding-0.6B"),
    ],
)
def test_written_model_names_find_their_model(written, name):
    assert find_model(written).name == name


@pytest.mark.parametrize("stem", well_known())
def test_every_name_of_a_model_finds_it(stem):
    model = well_known()[stem]
    assert all(find_model(name) is model for name in (stem, *model.names))
    assert all(find_model(name.upper().replace("-", "_")) is model for name in model.names)


def test_no_name_belongs_to_two_models():
    assert [stems for stems in _stems_by_key(beginnings=False).values() if len(stems) > 1] == []


def test_a_family_name_lists_the_choices(wording):
    with pytest.raises(UserError) as error:
        find_model("kimi")
    wording(error.value.message, tells="Kimi-K2, Kimi-K2-Thinking, Kimi-Linear-48B-A3B")


def test_model_names_read_early_match_the_full_entries():
    assert all_names() == {stem: model.names for stem, model in well_known().items()}


def test_no_model_name_contains_a_quant():
    assert [name for names in all_names().values() for name in names if split_quant(name)[1]] == []


def test_models_are_listed_by_size_and_newest_family_first():
    sizes = [m.name for m in listed_models("gemma3")]
    assert sizes == ["Gemma-3-270M", "Gemma-3-1B", "Gemma-3-4B", "Gemma-3-12B", "Gemma-3-27B"]
    names = [m.name for m in listed_models("llama 70b")]
    assert names[:3] == ["Llama-3.3-70B", "Llama-3.1-70B", "Llama-3.1-Nemotron-70B"]
    assert names[-1] == "DeepSeek-R1-Distill-Llama-70B"
    qwen = [m.name for m in listed_models("qwen")]
    assert qwen.index("Qwen3.5-0.8B") < qwen.index("Qwen3.5-4B") < qwen.index("Qwen3-0.6B") < qwen.index("Qwen3-8B")
    assert qwen.index("Qwen3-32B") < qwen.index("Qwen3-Coder-30B-A3B") < qwen.index("Qwen2.5-3B")
    assert len(listed_models("")) == len(well_known())
    assert listed_models("::") == []


def test_a_long_choice_says_how_to_list_all():
    with pytest.raises(UserError) as caught:
        find_model("qwen")
    assert "Qwen3.8-27B" in caught.value.message
    assert "DeepSeek" not in caught.value.message
    assert "--list qwen" in caught.value.hint


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("nomic-embed-text", "an encoder"),
        ("nomic-ai/nomic-embed-text-v1.5-GGUF:Q8_0", "an encoder"),
        ("bge-m3:567m", "an encoder"),
        ("llama3.2-vision:11b", "inside the language model"),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", "inside the language model"),
        ("llava:7b", "not in the catalog"),
        ("gpt-4o", "no weights"),
    ],
)
def test_known_names_without_catalog_entry_say_why(written, said):
    with pytest.raises(UserError, match=said):
        find_model(written)


@pytest.mark.parametrize(
    ("written", "near"), [("llama-3.1-9b", "Llama-3.1-8B"), ("qwen3-8", "Qwen3-8B"), ("gemma-2-26b", "Gemma-2-27B")]
)
def test_an_unknown_model_suggests_similar_names(written, near):
    with pytest.raises(UserError) as caught:
        find_model(written)
    assert near in caught.value.hint


@pytest.mark.parametrize("written", ["", "   ", "x" * 100_000, "::::", "/", "\x00", "Q4_K_M"])
def test_nonsense_is_an_unknown_model(written):
    with pytest.raises(UserError):
        find_model(written)


def test_the_error_text_of_an_unknown_model_is_its_message(wording):
    with pytest.raises(UserError) as error:
        find_model("nobody-knows-9000")
    assert str(error.value) == wording(error.value.message, tells="'nobody-knows-9000'")
