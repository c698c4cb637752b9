"""Memory of Transformers against PyTorch's own count on a GPU, and against its caches and device maps on a CPU."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[3] / "lab"))

import compare_transformers_memory as lab

from unslow.catalog.runtimes import overheads
from unslow.catalog.weight_parts import parts_of_shape, plain_storage, total_bytes
from unslow.facts.model import HfShape, LayerKind
from unslow.facts.values import GIB, MIB
from unslow.think.memory.transformers import (
    TransformersSettings,
    card_limits,
    longest_transformers_context,
    modules_of,
    place_modules,
    transformers_memory,
)

BF16 = plain_storage(2)
LLAMA_8B = HfShape(
    layers=32, width=4096, vocabulary=128256, heads=32, kv_heads=8, key_length=128, value_length=128, feed_forward=14336
)
PARTS = parts_of_shape(LLAMA_8B, BF16)
COMPARED = list(lab.measured())
LIBRARIES = 24 * MIB
"""Workspaces that a library takes at its first use fall into whichever run is first."""


def far_off(*kinds, share=0.0, size=0):
    rows = [row for row in COMPARED if row.what in kinds]
    assert len(rows) > 5
    return [row for row in rows if abs(row.computed - row.measured) > max(share * row.measured, size)]


def test_kv_cache_is_exact():
    assert far_off("cache") == []


def test_weights_and_totals_agree_within_1_percent():
    assert far_off("weights", "total", share=0.01) == []


def test_peaks_agree_within_2_percent_or_library_size():
    assert far_off("prompt", "generate", "logits", share=0.02, size=LIBRARIES) == []


def test_caches_of_many_architectures_are_exact():
    found = list(lab.recorded_caches())
    assert len({row.name.split()[0] for row in found}) == len(lab.KINDS) + 4
    assert [row.name for row in found if row.computed != row.measured] == []


@pytest.mark.parametrize(("name", "same"), list(lab.recorded_maps()))
def test_device_maps_match_transformers(name, same):
    assert same


def test_recorded_device_map_leaves_layers_on_the_host():
    row = next(r for r in lab.rows("transformers_memory_h200.jsonl") if r["kind"] == "load" and r["map"] == "half")
    shape = lab.shape_of("LlamaConfig", row["settings"])
    modules = modules_of(shape, parts_of_shape(shape, BF16))
    places = place_modules(modules, [row["file_bytes"] // 2], 64 * GIB)
    assert places == [0] * 5 + [1] * 13
    on_card = sum(module.bytes for module, place in zip(modules, places, strict=True) if place == 0)
    assert on_card == pytest.approx(row["allocated_bytes"], rel=0.002)


def test_load_peak_is_the_weights():
    row = next(r for r in lab.rows("transformers_memory_h200.jsonl") if r["kind"] == "load" and r["map"] == "whole")
    shape = lab.shape_of("LlamaConfig", row["settings"])
    assert total_bytes(parts_of_shape(shape, BF16)) == pytest.approx(row["load_peak_bytes"], rel=0.001)


def test_cuda_context_is_within_its_range():
    told = [r for r in lab.rows("transformers_memory_h200.jsonl") if r["kind"] == "context"]
    low, _, high = overheads().context
    assert all(low <= row["beside_torch_bytes"] <= high for row in told)


def test_one_gpu_reserves_a_tenth_and_several_balance():
    modules = modules_of(LLAMA_8B, PARTS)
    assert card_limits("auto", modules, [24 * GIB]) == [int(24 * GIB * 0.9)]
    assert card_limits("sequential", modules, [24 * GIB]) == [24 * GIB]
    first, last = card_limits("auto", modules, [24 * GIB, 24 * GIB])
    assert first < 9 * GIB
    assert last == 24 * GIB


def test_two_gpus_share_layers_cache_and_context():
    asked = TransformersSettings(4096, 256)
    memory = transformers_memory(LLAMA_8B, PARTS, asked, [12 * GIB, 12 * GIB], 64 * GIB)
    alone = transformers_memory(LLAMA_8B, PARTS, asked, [24 * GIB])
    assert memory.fits
    assert memory.disk_bytes == memory.host.weights_bytes == 0
    assert sum(d.weights_bytes for d in memory.devices) == total_bytes(PARTS)
    assert sum(d.kv_bytes for d in memory.devices) == alone.devices[0].kv_bytes
    assert all(d.other.mid > 0 for d in memory.devices)


def test_offloaded_modules_keep_their_cache_on_the_gpu():
    asked = TransformersSettings(4096, 256)
    memory = transformers_memory(LLAMA_8B, PARTS, asked, [8 * GIB], 64 * GIB)
    roomy = transformers_memory(LLAMA_8B, PARTS, asked, [24 * GIB], 64 * GIB)
    assert memory.host.weights_bytes > 8 * GIB
    assert memory.devices[0].kv_bytes == roomy.devices[0].kv_bytes
    assert memory.devices[0].compute_bytes > roomy.devices[0].compute_bytes


def test_without_a_gpu_everything_is_in_host_memory():
    memory = transformers_memory(LLAMA_8B, PARTS, TransformersSettings(512, 16), [], 20 * GIB)
    assert memory.devices == ()
    assert memory.host.weights_bytes == total_bytes(PARTS)
    assert memory.host.other.mid == 0
    assert memory.fits
    assert not transformers_memory(LLAMA_8B, PARTS, TransformersSettings(512, 16), [], 8 * GIB).fits


def test_eager_attention_shortens_the_longest_context():
    sdpa, eager = (
        longest_transformers_context(LLAMA_8B, PARTS, TransformersSettings(1, 16, attention=name), [24 * GIB], 64 * GIB)
        for name in ("sdpa", "eager")
    )
    assert 0 < eager < sdpa / 3
    assert (
        longest_transformers_context(LLAMA_8B, PARTS, TransformersSettings(1, 16, device_map="single"), [8 * GIB]) == 0
    )


def test_longest_context_just_fits():
    asked = TransformersSettings(1, 16)
    most = longest_transformers_context(LLAMA_8B, PARTS, asked, [24 * GIB])
    just, over = (
        transformers_memory(LLAMA_8B, PARTS, asked._replace(prompt_tokens=most - 16 + more), [24 * GIB])
        for more in (0, 1)
    )
    assert just.fits
    assert not over.fits


def test_mla_cache_is_expanded_before_5_15():
    shape = HfShape(
        layers=4, width=2048, vocabulary=1000, heads=16, kv_heads=16, key_length=192, value_length=128, kv_rank=512,
        rope_length=64, feed_forward=4096,
    )  # fmt: skip
    parts = parts_of_shape(shape, BF16)
    new, old = (
        transformers_memory(shape, parts, TransformersSettings(1024, version=version), [24 * GIB]).devices[0].kv_bytes
        for version in ((5, 17), (4, 57))
    )
    assert old / new == pytest.approx(16 * 320 / 576)


def test_logits_of_all_positions_are_computed_before_4_45():
    new, old = (
        transformers_memory(LLAMA_8B, PARTS, TransformersSettings(8192, version=version), [80 * GIB])
        .devices[0]
        .compute_bytes
        for version in ((4, 57), (4, 44))
    )
    assert old > 8192 * 128256 * 6 > new


@given(
    prompt=st.integers(1, 20_000),
    more=st.integers(0, 4000),
    batch=st.integers(1, 16),
    cache=st.sampled_from(["dynamic", "static"]),
    attention=st.sampled_from(["sdpa", "eager", "flash"]),
    padded=st.booleans(),
    size=st.sampled_from([2, 4]),
)
def test_longer_prompt_never_takes_less_memory(prompt, more, batch, cache, attention, padded, size):
    shape = HfShape(
        layers=6, width=256, vocabulary=1000, heads=8, kv_heads=2, key_length=32, value_length=32, feed_forward=512,
        window=64, kinds=(LayerKind.WINDOW, LayerKind.FULL) * 3,
    )  # fmt: skip
    parts = parts_of_shape(shape, BF16)
    asked = TransformersSettings(prompt, 8, batch, cache, attention, padded, size)
    short, long = (
        transformers_memory(shape, parts, asked._replace(prompt_tokens=tokens), [80 * GIB]).devices[0]
        for tokens in (prompt, prompt + more)
    )
    assert short.kv_bytes <= long.kv_bytes
    assert short.total.mid <= long.total.mid
    assert short.total.low <= short.total.mid <= short.total.high
