"""Per-token load of well-known models, against published figures."""

import pytest

from unslow.catalog.models import find_model
from unslow.think.blueprints import made_up
from unslow.think.speed.load import model_load, totals

KIB = 1024


def load(name, quant="Q4_K_M"):
    return model_load(made_up(find_model(name), quant))


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama-3.1-8b", 7.5),  # 8.03 without the token table
        ("qwen3-30b-a3b", 3.0),
        ("gpt-oss-120b", 5.1),
        ("deepseek-v3", 36.6),
        ("qwen3-235b-a22b", 21.6),
        ("llama-4-scout", 16.1),
        ("hunyuan-a13b", 12.7),
    ],
)
def test_active_weights_per_token_match_published_figures(name, billions):
    asked = totals(load(name)).step(0.0)
    assert (asked.dense_weights + asked.expert_weights) / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize(
    ("name", "kib"), [("llama-3.1-8b", 128), ("llama-2-7b", 512), ("qwen3-30b-a3b", 96), ("deepseek-v3", 68.6)]
)
def test_kv_cache_bytes_per_token_match_published_figures(name, kib):
    assert totals(load(name)).cache_elements(1.0) * 2 / KIB == pytest.approx(kib, rel=0.01)


def test_sliding_windows_bound_the_kv_cache():
    gemma = totals(load("gemma-3-27b"))
    assert gemma.cache_elements(131072) < 0.25 * gemma.cache_elements(1.0) * 131072


def test_tied_token_table_is_read_as_the_output():
    tied, own = load("llama-3.2-1b"), load("llama-3.1-8b")
    assert tied.table_bytes == 0
    assert own.table_bytes > 0
    assert tied.output_weights == 128256 * 2048


def test_every_byte_of_the_file_is_counted():
    for name in ("llama-3.1-8b", "qwen3-30b-a3b", "gemma-3-4b", "qwen3.5-9b", "flan-t5-base"):
        plan = made_up(find_model(name), "Q4_K_M")
        assert model_load(plan).file_bytes == pytest.approx(sum(t.bytes for t in plan.tensors), rel=0.001)


def test_more_tokens_meet_more_experts():
    moe = totals(load("qwen3-30b-a3b"))
    assert moe.met_share(1.0) == pytest.approx(8 / 128)
    assert moe.met_share(512.0) > 0.99


def test_decode_uses_the_decoder_and_not_the_encoder():
    plan = made_up(find_model("flan-t5-base"), "Q8_0")
    found = model_load(plan)
    decoder, encoder = (
        sum(t.bytes for t in plan.tensors if t.name.startswith(f"{side}.blk.")) for side in ("dec", "enc")
    )
    assert sum(layer.dense_bytes for layer in found.layers) == decoder > 0
    assert found.table_bytes >= encoder > 0
