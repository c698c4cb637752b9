"""Weights by role, from a model's numbers and from its tensors."""

import pytest

from unslow.catalog.weight_parts import (
    Role,
    find_scheme,
    packed_storage,
    parts_of_shape,
    parts_of_tensors,
    plain_storage,
    total_bytes,
)
from unslow.facts.model import HfShape, Tensor

SMALL = HfShape(
    layers=2, width=64, vocabulary=1000, heads=4, kv_heads=2, key_length=16, value_length=16, experts=4, experts_used=2,
    expert_width=32, head_norms=True,
)  # fmt: skip


def tensors_of(shape, width_bytes=2):
    """The tensors that a Hugging Face checkpoint of that shape has."""
    w, q, kv = shape.width, shape.heads * shape.key_length, shape.kv_heads * shape.key_length
    shapes = {"model.embed_tokens.weight": (w, shape.vocabulary), "lm_head.weight": (w, shape.vocabulary)}
    shapes["model.norm.weight"] = (w,)
    for n in range(shape.layers):
        layer = f"model.layers.{n}."
        shapes |= {f"{layer}{name}.weight": (w,) for name in ("input_layernorm", "post_attention_layernorm")}
        shapes |= {f"{layer}self_attn.{name}_norm.weight": (shape.key_length,) for name in "qk"}
        shapes |= {f"{layer}self_attn.q_proj.weight": (w, q), f"{layer}self_attn.o_proj.weight": (q, w)}
        shapes |= {f"{layer}self_attn.{name}_proj.weight": (w, kv) for name in "kv"}
        shapes[f"{layer}mlp.gate.weight"] = (w, shape.experts)
        for e in range(shape.experts):
            for name in ("gate", "up", "down"):
                shapes[f"{layer}mlp.experts.{e}.{name}_proj.weight"] = (w, shape.expert_width)
    return [Tensor(name, "BF16", size, width_bytes * _product(size)) for name, size in shapes.items()]


def _product(numbers):
    result = 1
    for number in numbers:
        result *= number
    return result


def by_role(parts):
    sums = {}
    for part in parts:
        sums[part.layer, part.role] = sums.get((part.layer, part.role), 0) + part.bytes
    return sums


def test_tensors_and_numbers_give_the_same_parts():
    from_shape = by_role(parts_of_shape(SMALL, plain_storage(2)))
    assert by_role(parts_of_tensors(tensors_of(SMALL), SMALL.layers)) == from_shape


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("blk.3.attn_k.weight", (3, Role.KEY_VALUE)),
        ("blk.3.ffn_gate_exps.weight", (3, Role.EXPERTS)),
        ("blk.3.ffn_gate_inp.weight", (3, Role.WHOLE)),
        ("blk.3.ssm_out.weight", (3, Role.RECURRENT)),
        ("token_embd.weight", (-1, Role.EMBEDDING)),
        ("output.weight", (8, Role.OUTPUT)),
        ("output_norm.weight", (8, Role.WHOLE)),
        ("vision_tower.encoder.layers.2.self_attn.k_proj.weight", (-1, Role.OTHER)),
        ("model.layers.5.linear_attn.in_proj_qkvz.weight", (5, Role.RECURRENT)),
        ("model.layers.5.self_attn.kv_b_proj.weight", (5, Role.QUERY)),
        ("something.nobody.knows", (8, Role.WHOLE)),
    ],
)
def test_gguf_and_hf_tensor_names_have_their_role(name, place):
    part = parts_of_tensors([Tensor(name, "BF16", (1,), 2)], 8)[0]
    assert (part.layer, part.role) == place


def test_quantization_leaves_tables_and_norms_unquantized():
    plain, small = (by_role(parts_of_shape(SMALL, s)) for s in (plain_storage(2), packed_storage(find_scheme("W4A16"))))
    assert small[-1, Role.EMBEDDING] == plain[-1, Role.EMBEDDING]
    assert small[0, Role.WHOLE] == plain[0, Role.WHOLE]
    assert small[0, Role.EXPERTS] == pytest.approx(plain[0, Role.EXPERTS] * 0.515625 / 2, rel=1e-5)


def test_mxfp4_quantizes_experts_only():
    plain, small = (by_role(parts_of_shape(SMALL, s)) for s in (plain_storage(2), packed_storage(find_scheme("MXFP4"))))
    assert small[0, Role.QUERY] == plain[0, Role.QUERY]
    assert small[0, Role.EXPERTS] < plain[0, Role.EXPERTS] / 3


@pytest.mark.parametrize(
    ("shape", "parameters"),
    [
        (HfShape(layers=32, width=4096, vocabulary=128256, heads=32, kv_heads=8, key_length=128, value_length=128,
                 feed_forward=14336), 8_030_261_248),
        (HfShape(layers=48, width=2048, vocabulary=151936, heads=32, kv_heads=4, key_length=128, value_length=128,
                 experts=128, experts_used=8, expert_width=768, head_norms=True), 30_532_122_624),
        (HfShape(layers=27, width=2048, vocabulary=102400, heads=16, kv_heads=16, key_length=192, value_length=128,
                 kv_rank=512, rope_length=64, feed_forward=10944, experts=64, experts_used=6, expert_width=1408,
                 shared_width=2816, leading_dense=1), 15_706_484_224),
    ],
    ids=["Llama-3.1-8B", "Qwen3-30B-A3B", "DeepSeek-V2-Lite"],
)  # fmt: skip
def test_shapes_have_their_published_parameter_counts(shape, parameters):
    assert total_bytes(parts_of_shape(shape, plain_storage(2))) == 2 * parameters
