"""Addresses as people paste them: files are read, pages are names, the rest is refused with what would do."""

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
def test_a_page_is_as_good_as_a_name(word, meant):
    assert model_of_address(word) == meant


@pytest.mark.parametrize("word", ["https://huggingface.co/a/b/resolve/main/x.gguf", "http://localhost:8000/x.gguf"])
def test_a_file_stays_an_address(word):
    assert model_of_address(word) == word
    assert is_address(word)


def test_the_page_of_a_file_is_answered_with_the_file():
    with pytest.raises(UserError) as caught:
        model_of_address("https://huggingface.co/a/b/blob/main/x/y.gguf?download=true")
    assert caught.value.hint == "give https://huggingface.co/a/b/resolve/main/x/y.gguf"


@pytest.mark.parametrize("word", ["ftp://host/x.gguf", "file:///x.gguf", "s3://bucket/x"])
def test_other_ways_to_fetch_are_refused(word, wording):
    with pytest.raises(UserError) as caught:
        model_of_address(word)
    wording(str(caught.value), tells=word)
