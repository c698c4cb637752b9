"""Generated models have exact sizes in every offered quant mix."""

import io
import math
import struct

import pytest

from unslow.catalog.architectures import made_up_shapes
from unslow.catalog.quants import file_types, quants, quants_by_ggml_type
from unslow.look.engine.made_up_models import RandomBlocks, can_fill, planned_model, planned_tensors, write_model

MIXES = [f.name for f, _ in file_types().values() if f.output]
TINY = made_up_shapes()["tiny"]


def types_of(shape: str, quant: str) -> dict[str, str]:
    return {t.name: quants_by_ggml_type()[t.ggml_type].name for t in planned_tensors(made_up_shapes()[shape], quant)}


@pytest.mark.parametrize("quant", MIXES)
def test_a_generated_model_has_its_planned_size(quant):
    model, file, news = planned_model(TINY, quant, "x"), io.BytesIO(), []
    write_model(model, file, lambda done, total: news.append((done, total)))
    assert len(file.getvalue()) == model.file_bytes
    assert news[-1] == (model.file_bytes, model.file_bytes)


def test_generated_models_are_deterministic():
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        write_model(planned_model(TINY, "Q4_K_M", "x"), file)
    assert files[0].getvalue() == files[1].getvalue()


@pytest.mark.parametrize("quant", ["Q9_X", "IQ1_S", "F32"])
def test_a_quant_that_cannot_be_generated_is_a_key_error(quant):
    with pytest.raises(KeyError):
        planned_model(TINY, quant, "x")


def test_q4_k_m_uses_q6_k_for_the_same_layers_as_llama_cpp():
    types = types_of("llama_1b", "Q4_K_M")
    six = [n for n in range(16) if types[f"blk.{n}.ffn_down.weight"] == "Q6_K"]
    assert six == [0, 1, 4, 7, 10, 13, 14, 15]  # llama-quant.cpp, use_more_bits, worked out for 16 layers
    assert all(types[f"blk.{n}.attn_v.weight"] == "Q6_K" for n in six)
    assert types["token_embd.weight"] == "Q6_K"
    assert types["blk.0.attn_q.weight"] == "Q4_K"


def test_the_generated_135m_has_the_size_of_the_published_model():
    assert sum(t.bytes for t in planned_tensors(made_up_shapes()["llama_135m"], "Q4_1")) == 96_576_768


def test_rows_not_divisible_by_256_fall_back_to_smaller_blocks():
    types = types_of("llama_135m", "Q4_K_M")  # width 576 = 2.25 blocks of 256
    assert types["token_embd.weight"] == "Q8_0"
    assert types["blk.5.attn_q.weight"] == "Q5_0"
    assert types["blk.4.ffn_down.weight"] == "Q4_K"


def test_expert_tensors_have_a_third_dimension():
    found = {t.name: t for t in planned_tensors(made_up_shapes()["moe_small"], "Q4_K_M")}
    assert found["blk.0.ffn_up_exps.weight"].dimensions == (1024, 768, 16)
    assert found["blk.0.ffn_up_exps.weight"].bytes == 1024 * 768 * 16 // 256 * 144
    assert found["blk.0.attn_q_norm.weight"].dimensions == (128,)


@pytest.mark.parametrize("name", [n for n, q in quants().items() if q.half_fields])
def test_every_scale_is_finite_and_small(name):
    quant = quants()[name]
    (pool,) = RandomBlocks(quant).take(quant.block_bytes * 100)
    for offset in quant.half_fields:
        for start in range(offset, len(pool), quant.block_bytes):
            (scale,) = struct.unpack_from("<e", pool, start)
            assert 0 < abs(scale) < 0.1


@pytest.mark.parametrize("name", ["F16", "F32"])
def test_generated_floats_are_finite_and_small(name):
    (pool,) = RandomBlocks(quants()[name]).take(4096)
    values = struct.unpack(f"<{4096 // quants()[name].block_bytes}{'e' if name == 'F16' else 'f'}", pool)
    assert all(math.isfinite(v) and abs(v) < 0.2 for v in values)
    assert len(set(values)) > 100


def test_random_blocks_continue_across_takes():
    quant = quants()["Q4_0"]
    blocks = RandomBlocks(quant)
    taken = b"".join(piece for _ in range(3) for piece in blocks.take(3 * 1024**2 // 18 * 18))
    assert taken == b"".join(RandomBlocks(quant).take(len(taken)))
    assert taken[:18] != taken[18:36]


def test_quants_with_unknown_scales_cannot_be_generated():
    assert not can_fill(quants()["IQ1_S"])
