"""Memory of vLLM against 84 published startup logs, and properties that hold for any."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[3] / "lab"))

import compare_vllm_memory as lab

from unslow.catalog.weight_parts import parts_of_shape, plain_storage
from unslow.facts.model import HfShape, LayerKind
from unslow.facts.values import GIB
from unslow.think.memory.vllm import VllmSettings, block_bytes, cache_groups, captured_graphs, stage_layers, vllm_memory

BF16 = plain_storage(2)
LLAMA_8B = HfShape(
    layers=32, width=4096, vocabulary=128256, heads=32, kv_heads=8, key_length=128, value_length=128,
    feed_forward=14336, positions=131072,
)  # fmt: skip
GEMMA = HfShape(
    layers=12, width=2560, vocabulary=262208, heads=8, kv_heads=4, key_length=256, value_length=256, feed_forward=10240,
    tied=True, window=1024, kinds=(*[LayerKind.WINDOW] * 5, LayerKind.FULL) * 2,
)  # fmt: skip
STARTS = lab.starts()
PADDED_LESS = "Triton"
ANOTHER_RANK = "another one is quoted"


def names(starts):
    return [f"{n}-{start.name}" for n, start in enumerate(starts)]


def those_with(*fields):
    found = [s for s in STARTS if all(s.fields[f] for f in fields)]
    assert found
    return pytest.mark.parametrize("start", found, ids=names(found))


@those_with("weights_gib")
def test_weights_agree_with_the_log(start):
    allowed = 0.03 if PADDED_LESS in start.fields["note"] else 0.012
    assert lab.weights_gib(start) == pytest.approx(start.gib("weights_gib"), rel=allowed)


@those_with("activation_gib")
def test_profiled_peak_agrees_with_the_log(start):
    assert lab.peak_gib(start) == pytest.approx(start.gib("activation_gib"), abs=0.15)


@those_with("total_gib", "available_gib")
def test_available_cache_memory_is_within_the_range(start):
    room = lab.available(start)
    assert room.low <= start.gib("available_gib") * GIB + lab.ROUNDING
    if start.settings.pipeline_parallel == 1:  # a log of several stages quotes the roomiest
        assert start.gib("available_gib") * GIB - lab.ROUNDING <= room.high
    if start.fields["gpu"] == "H100 80GB" and start.settings.pipeline_parallel == 1:
        assert room.mid / GIB == pytest.approx(start.gib("available_gib"), abs=0.25)


@those_with("available_gib", "kv_tokens")
def test_cache_tokens_follow_exactly_from_memory(start):
    low, high = lab.tokens_range(start, start.gib("available_gib"))
    if start.settings.pipeline_parallel > 1 or ANOTHER_RANK in start.fields["note"]:
        # The tightest rank decides, and the log quotes another.
        assert high * 0.98 <= start.number("kv_tokens") <= high
    else:
        assert low <= start.number("kv_tokens") <= high


@those_with("blocks", "concurrency")
def test_blocks_and_concurrency_agree_with_the_log(start):
    groups = cache_groups(start.shape, start.settings)
    size = block_bytes(groups, stage_layers(start.shape.layers, start.settings.pipeline_parallel)[0])
    capacity = lab.cache_of(start.shape, start.settings, start.number("blocks") * size)
    assert capacity.concurrency == pytest.approx(float(start.fields["concurrency"]), abs=0.006)


@those_with("needed_gib")
def test_memory_of_the_longest_request_matches_the_error(start):
    assert round(lab.needed_gib(start), 2) == pytest.approx(start.gib("needed_gib"), abs=0.005)


@those_with("longest", "available_gib")
def test_estimated_maximum_length_matches_the_error(start):
    low, high = lab.longest_range(start, start.gib("available_gib"))
    assert low <= start.number("longest") <= high


def test_recurrent_state_stretches_the_attention_block():
    # "Setting attention block size to 1568 tokens", "Padding mamba page size by 0.13%": noonghunna/club-3090 issue 1047
    start = next(s for s in STARTS if s.fields["model"] == "qwen3.8-27b")
    settings = start.settings._replace(tensor_parallel=1, max_num_batched_tokens=2048)
    groups = cache_groups(start.shape, settings)
    assert {g.block_tokens for g in groups} == {1568}
    state = 48 * 128 * 128 * 4 + (2 * 16 * 128 + 48 * 128) * 3 * 2
    assert groups[0].page_bytes / state == pytest.approx(1.0013, abs=0.00005)
    assert [(g.kind, len(g.layers)) for g in groups] == [(LayerKind.RECURRENT, 16)] * 3 + [(LayerKind.FULL, 16)]


def test_layer_kinds_with_different_heads_share_one_page_size():
    # Gemma 4: windowed blocks of 16 tokens and full blocks of 64, both of 65536 bytes (ovg-project/kvcached pull 396)
    shape = HfShape(
        layers=12, width=2560, vocabulary=262144, heads=8, kv_heads=8, key_length=256, value_length=256,
        full_kv_heads=1, full_key_length=512, window=1024, kinds=(*[LayerKind.WINDOW] * 5, LayerKind.FULL) * 2,
    )  # fmt: skip
    groups = cache_groups(shape, VllmSettings(8192, kv_cache_dtype="fp8"))
    assert {(g.kind, g.block_tokens, g.page_bytes) for g in groups} == {
        (LayerKind.WINDOW, 16, 65536),
        (LayerKind.FULL, 64, 65536),
    }


def test_sliding_windows_bound_the_cache_of_a_long_request():
    settings = VllmSettings(131072, max_num_batched_tokens=2048)
    windowed, _ = lab.longest_of(GEMMA, settings, 0)
    everything, _ = lab.longest_of(GEMMA, settings._replace(hybrid_cache=False), 0)
    assert windowed < 0.25 * everything


def test_mla_cache_is_whole_on_every_rank_and_heads_are_divided():
    latent = next(s for s in STARTS if s.fields["model"] == "deepseek-v2-lite").shape
    one, four = (VllmSettings(8192, tensor_parallel=n) for n in (1, 4))
    assert lab.cache_of(latent, one, GIB).tokens == lab.cache_of(latent, four, GIB).tokens
    assert lab.cache_of(LLAMA_8B, four, GIB).blocks // 4 == lab.cache_of(LLAMA_8B, one, GIB).blocks


def test_kv_heads_are_repeated_where_ranks_outnumber_them():
    eight, sixteen = (lab.cache_of(LLAMA_8B, VllmSettings(8192, tensor_parallel=n), GIB).blocks for n in (8, 16))
    assert eight == sixteen


def test_leftover_layers_go_to_middle_pipeline_stages():
    assert [len(stage) for stage in stage_layers(30, 4)] == [7, 8, 8, 7]
    assert [len(stage) for stage in stage_layers(32, 4)] == [8, 8, 8, 8]


def test_defaults_follow_the_gpu_memory():
    assert VllmSettings(1).on_card(80 * GIB)[4:6] == (1024, 8192)
    assert VllmSettings(1, small_batches=True).on_card(80 * GIB)[4:6] == (256, 2048)
    assert VllmSettings(1).on_card(180 * GIB)[4:6] == (1024, 16384)
    assert VllmSettings(1).on_card(24 * GIB)[4:6] == (256, 2048)
    assert VllmSettings(1, max_num_batched_tokens=64).on_card(80 * GIB).max_num_seqs == 64


def test_number_of_captured_batch_sizes_follows_max_num_seqs():
    usual, few = (captured_graphs(LLAMA_8B, VllmSettings(1, max_num_seqs=n).on_card(80 * GIB)).mid for n in (0, 8))
    assert few / usual == pytest.approx(5 / 51)


def test_model_that_is_too_large_does_not_fit():
    parts = parts_of_shape(LLAMA_8B, BF16)
    small = vllm_memory(LLAMA_8B, parts, VllmSettings(8192), 16 * GIB)
    large = vllm_memory(LLAMA_8B, parts, VllmSettings(8192), 24 * GIB)
    assert (small.fits, small.max_model_len, small.kv_tokens) == (False, 0, 0)
    assert large.fits
    assert large.max_model_len == 8192
    assert large.devices[0].total.mid < 24 * GIB


def test_given_cache_size_is_used():
    parts = parts_of_shape(LLAMA_8B, BF16)
    asked = VllmSettings(8192, kv_cache_memory_bytes=4 * GIB)
    memory = vllm_memory(LLAMA_8B, parts, asked, 24 * GIB)
    assert memory.available == (4 * GIB,) * 3
    assert memory.devices[0].kv_bytes == 4 * GIB


def test_every_rank_has_its_own_memory():
    parts = parts_of_shape(LLAMA_8B, BF16)
    memory = vllm_memory(LLAMA_8B, parts, VllmSettings(8192, tensor_parallel=2, pipeline_parallel=2), 24 * GIB)
    assert len(memory.devices) == 4
    assert memory.devices[0] == memory.devices[1]


def test_empty_shape_does_not_crash():
    nothing = HfShape(layers=0, width=0, vocabulary=0, heads=0, kv_heads=0, key_length=0, value_length=0)
    memory = vllm_memory(nothing, parts_of_shape(nothing, BF16), VllmSettings(8192), 24 * GIB)
    assert not memory.fits
    some = HfShape(layers=2, width=8, vocabulary=0, heads=0, kv_heads=0, key_length=0, value_length=0, experts=2)
    assert vllm_memory(some, parts_of_shape(some, BF16), VllmSettings(8192), 24 * GIB).kv_blocks == 0


@given(
    length=st.integers(1, 200_000),
    ranks=st.sampled_from([1, 2, 4, 8]),
    stages=st.integers(1, 4),
    version=st.sampled_from([(0, 8), (0, 12), (0, 19), (0, 21), (0, 28), (1, 0)]),
    total=st.integers(8, 200),
)
def test_more_memory_never_holds_less(length, ranks, stages, version, total):
    asked = VllmSettings(length, tensor_parallel=ranks, pipeline_parallel=stages, version=version)
    parts = parts_of_shape(GEMMA, BF16)
    # The batches of a larger card are larger too: the same ones are asked for on both.
    asked = asked.on_card(total * GIB)
    less, more = (vllm_memory(GEMMA, parts, asked, size * GIB) for size in (total, total + 8))
    assert less.kv_blocks <= more.kv_blocks
    assert less.max_model_len <= more.max_model_len <= length
    assert less.available.low <= less.available.mid <= less.available.high
    assert less.fits == (less.max_concurrency >= 1)
