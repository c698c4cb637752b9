"""The quant in a model name is found, and nothing else is mistaken for one."""

import pytest

from unslow.catalog.quants import split_quant


@pytest.mark.parametrize(
    ("name", "bare", "quant"),
    [
        ("Qwen2.5-32B-Instruct-GGUF:Q5_K_M", "Qwen2.5-32B-Instruct-GGUF", "Q5_K_M"),
        ("llama3.1:8b-instruct-fp16", "llama3.1:8b-instruct", "fp16"),
        ("Qwen3:32B-FP16", "Qwen3:32B", "FP16"),
        ("DeepSeek-R1-GGUF:UD-IQ1_S", "DeepSeek-R1-GGUF", "UD-IQ1_S"),
        ("SmolLM2-135M-Instruct.Q4_1", "SmolLM2-135M-Instruct", "Q4_1"),
        ("qwen3-8b@q4_k_m", "qwen3-8b", "q4_k_m"),
        ("Qwen3-8B Q6_K", "Qwen3-8B", "Q6_K"),
        ("Qwen2.5-7B-Instruct-AWQ", "Qwen2.5-7B-Instruct", "AWQ"),
        ("Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen2.5-7B-Instruct", "GPTQ Int4"),
        ("Llama-2-7B-GPTQ-4bit-32g", "Llama-2-7B", "GPTQ 4bit 32g"),
        ("Qwen3-8B-FP8", "Qwen3-8B", "FP8"),
        ("Llama-3.3-70B-Instruct-FP8-dynamic", "Llama-3.3-70B-Instruct", "FP8-dynamic"),
        ("Qwen3-8B-4bit", "Qwen3-8B", "MLX 4bit"),
        ("Qwen3-8B-MLX-8bit", "Qwen3-8B", "MLX 8bit"),
        ("Llama-3.2-3B-Instruct-unsloth-bnb-4bit", "Llama-3.2-3B-Instruct", "unsloth-bnb 4bit"),
        ("Qwen2.5-32B-exl2-4.65bpw", "Qwen2.5-32B", "exl2 4.65bpw"),
        ("gemma3:27b-it-qat", "gemma3:27b-it-qat", "Q4_0"),
        ("gemma-3-27b-it-qat-q4_0-gguf", "gemma-3-27b-it-qat-gguf", "q4_0"),
        ("Qwen3-30B-A3B-Instruct-2507", "Qwen3-30B-A3B-Instruct-2507", ""),
        ("Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x7B-Instruct-v0.1", ""),
        ("", "", ""),
    ],
)
def test_a_name_is_split_into_model_and_quant(name, bare, quant):
    assert split_quant(name) == (bare, quant)
