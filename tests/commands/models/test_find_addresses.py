"""Pasted addresses: file URLs are read, page URLs become model names, other schemes are refused."""

import pytest

from unslow.commands.models.find import is_address, model_of_address
from unslow.facts.errors import UserError


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("https://huggingface.co/bartowski/Qwen3-8B-GGUF", "bartowski/Qwen3-8B-GGUF"),
        ("https://huggingface.co/bartowski/Qwen3-8B-GGUF/tree/main", "bartowski/Qwen3-8B-GGUF"),
        ("https://hf.co/Qwen/Qwen3-8B?library=vllm", "Qwen/Qwen3-8B"),
        ("https://ollama.com/library/llama3.1:8b", "llama3.1:8b"),
        ("hf://Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("ollama://qwen3:8b", "qwen3:8b"),
        ("qwen3:8b", "qwen3:8b"),
        ("-", "-"),
    ],
)
def test_page_urls_become_model_names(word, meant):
    assert model_of_address(word) == meant


@pytest.mark.parametrize("word", ["https://huggingface.co/a/b/resolve/main/x.gguf", "http://localhost:8000/x.gguf"])
def test_file_url_stays_a_url(word):
    assert model_of_address(word) == word
    assert is_address(word)


def test_blob_page_is_refused_with_its_resolve_url():
    with pytest.raises(UserError) as caught:
        model_of_address("https://huggingface.co/a/b/blob/main/x/y.gguf?download=true")
    assert caught.value.hint == "give https://huggingface.co/a/b/resolve/main/x/y.gguf"


@pytest.mark.parametrize("word", ["ftp://host/x.gguf", "file:///x.gguf", "s3://bucket/x"])
def test_other_schemes_are_refused(word, wording):
    with pytest.raises(UserError) as caught:
        model_of_address(word)
    wording(str(caught.value), tells=word)
