"""From `config.json` to the shape from which memory is calculated."""

import json
from pathlib import Path

import msgspec
import pytest

from unslow.catalog.weight_parts import parts_of_shape, plain_storage, total_bytes
from unslow.facts.model import HfShape, LayerKind
from unslow.look.models.hf_config import hf_shape, shape_of_config

SHAPES = json.loads((Path(__file__).parents[3] / "lab" / "data" / "hf_shapes.json").read_text())
LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}  # fmt: skip
QWEN_EXPERTS = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
    "num_experts_per_tok": 8, "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": False,
    "decoder_sparse_step": 1, "sliding_window": None,
}  # fmt: skip
GPT_OSS = {
    "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24, "head_dim": 64,
    "num_attention_heads": 64, "num_key_value_heads": 8, "num_local_experts": 32, "num_experts_per_tok": 4,
    "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 12, "vocab_size": 201088,
    "max_position_embeddings": 131072, "tie_word_embeddings": False,
}  # fmt: skip
DEEPSEEK = {
    "model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408,
    "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16, "kv_lora_rank": 512,
    "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64,
    "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "vocab_size": 102400,
    "max_position_embeddings": 163840, "tie_word_embeddings": False,
}  # fmt: skip
GEMMA = {
    "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 1024, "vocab_size": 262208,
    "sliding_window_pattern": 6, "max_position_embeddings": 131072,
}  # fmt: skip
QWEN_NEXT = {
    "model_type": "qwen3_next", "hidden_size": 2048, "intermediate_size": 5120, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512, "num_hidden_layers": 48, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "num_experts": 512, "num_experts_per_tok": 10, "vocab_size": 151936,
    "max_position_embeddings": 262144, "tie_word_embeddings": False,
}  # fmt: skip
BESIDE = ("attention_bias", "head_norms", "expert_bias", "attention_gate", "other_parameters", "feed_forward")
"""What the plain numbers do not tell (small vectors, towers), or tell of layers that no model of these has."""


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (LLAMA, "llama-3.1-8b"),
        (QWEN_EXPERTS, "qwen3-30b-a3b"),
        (GPT_OSS, "gpt-oss-20b"),
        (DEEPSEEK, "deepseek-v2-lite"),
        (GEMMA, "gemma-3-4b"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_configs_give_the_verified_published_shapes(config, name):
    found = msgspec.structs.asdict(shape_of_config(hf_shape(config)))
    expected = msgspec.structs.asdict(msgspec.convert(SHAPES[name], HfShape))
    assert {k: v for k, v in found.items() if k not in BESIDE} == {k: v for k, v in expected.items() if k not in BESIDE}


def test_a_gated_delta_net_has_states_and_weights():
    shape = shape_of_config(hf_shape(QWEN_NEXT))
    assert [shape.kind(n) for n in range(4)] == [LayerKind.RECURRENT] * 3 + [LayerKind.FULL]
    assert (shape.state, shape.convolution) == (32 * 128 * 128, 8192)
    assert total_bytes(parts_of_shape(shape, plain_storage(1))) == pytest.approx(79.7e9, rel=0.01)


def test_mamba_2_has_states_and_weights():
    numbers = {
        "layers": 2, "width": 4096, "vocabulary": 1, "heads": 32, "kv_heads": 8, "head_dim": 128, "mamba_heads": 128,
        "mamba_head_dim": 64, "mamba_state": 128, "mamba_groups": 8, "conv_kernel": 4, "layer_types": ["mamba", "mlp"],
    }  # fmt: skip
    shape = shape_of_config(numbers)
    assert (shape.state, shape.convolution) == (8192 * 128, 8192 + 2 * 8 * 128)
    assert shape.recurrent_parameters == 4096 * (8192 + 10240 + 128 + 8192) + 4 * 10240
    assert not any(shape.keeps(n) for n in range(2))


def test_an_empty_config_gives_zero_layers():
    assert shape_of_config({}).layers == 0
