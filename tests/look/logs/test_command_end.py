"""A pasted command followed by prose: the runnable command ends before the prose."""

import pytest

from unslow.look.logs.commands import runnable_command


@pytest.mark.parametrize(
    ("pasted", "kept"),
    [
        ("llama-server -m m.gguf -ngl 30 -c 8192 (rtx 4070 12GB, b6900)", "llama-server -m m.gguf -ngl 30 -c 8192"),
        ("./llama-server -m m.gguf -c 8192 on my RTX 4090", "./llama-server -m m.gguf -c 8192"),
        ("vllm serve org/model --enforce-eager and it is slow", "vllm serve org/model --enforce-eager"),
        ("llama-server -m m.gguf -ngl 20, but slow", "llama-server -m m.gguf -ngl 20"),
        ("llama-server -m m.gguf -b 512. CPU: i5-8400, b4000.", "llama-server -m m.gguf -b 512"),
        ("llama-server -fa on -m m.gguf --numa distribute", "llama-server -fa on -m m.gguf --numa distribute"),
        ("koboldcpp --tensor_split 3 1 --usecuda", "koboldcpp --tensor_split 3 1 --usecuda"),
        ("./main -m m.gguf -p secret -n 128", "./main -m m.gguf -n 128"),
        ("llama-bench -m m.gguf -p 512", "llama-bench -m m.gguf -p 512"),
    ],
)
def test_prose_after_a_command_is_cut_off(pasted, kept):
    assert runnable_command(pasted.split()) == kept.split()


def test_an_empty_command_stays_empty():
    assert runnable_command([]) == []
