"""The model name at the head of a report."""

import pytest

from unslow.commands.models.find import model_title, one_line


@pytest.mark.parametrize(
    ("stated", "source", "shown"),
    [
        ("Qwen3 8B", "/m/Qwen3-8B-Q4_K_M.gguf", "Qwen3 8B"),
        ("Models", "/m/Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B-Q4_K_M"),
        ("", "/m/Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B-Q4_K_M"),
        ("tmp_x7", "https://host/a/Qwen3-8B%20Q4.gguf?download=true", "Qwen3-8B Q4"),
        ("Qwen3 8B", "/blobs/sha256-0123456789abcdef0123456789abcdef", "Qwen3 8B"),
        ("Qwen3 8B", "/m/ggml-model-q4_0.gguf", "Qwen3 8B"),
        ("Qwen3 8B", "standard input", "Qwen3 8B"),
        ("", "standard input", "standard input"),
        ("x", "/m/big-Q4_0-00001-of-00002.gguf", "big-Q4_0"),
        ("Llama\n3.1\x1b[31m 8B", "/m/llama-3.1-8b.gguf", "Llama 3.1 [31m 8B"),
    ],
)
def test_title_is_the_stated_name_or_the_file_name(stated, source, shown):
    assert model_title(stated, source) == shown


def test_title_is_one_line_of_at_most_80_characters():
    assert one_line("a\r\nb\tc") == "a b c"
    assert len(one_line("x" * 10_000_000)) == 80
