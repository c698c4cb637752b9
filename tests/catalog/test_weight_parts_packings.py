"""Sizes of packed matrices match the real packages (recorded by lab/check_packings.py) or their sources."""

import json
from pathlib import Path

import pytest

from unslow.catalog.weight_parts import array_bytes, find_scheme, packed_bytes, packings, scheme
from unslow.facts.errors import UserError

REAL = json.loads(Path(__file__).with_name("packings_real.json").read_text())
JSON_OF_THE_STATE = "weight.quant_state"  # bitsandbytes writes some text beside: not recorded, its length varies


@pytest.mark.parametrize("words", REAL)
def test_packed_arrays_have_the_size_that_the_package_makes(words):
    found = find_scheme(words)
    for shape, real in REAL[words].items():
        rows, columns = map(int, shape.split("x"))
        arrays = {a.name: array_bytes(found, a, rows, columns) for a in found.packing.arrays}
        arrays.pop(JSON_OF_THE_STATE, None)
        if words.startswith("HQQ 3bit"):  # ten to a word, and the last word of the matrix is part empty
            assert 0 <= real.pop("W_q") - arrays.pop("W_q") < 4 * found.group
        assert arrays == real


@pytest.mark.parametrize(
    ("words", "arrays"),
    [
        ("GPTQ-Int4 128g", {"qweight": 512 * 4096, "qzeros": 32 * 512, "scales": 32 * 2048, "g_idx": 4096}),
        ("gptq 3bit 128g", {"qweight": 384 * 4096, "qzeros": 32 * 384, "scales": 32 * 2048, "g_idx": 4096}),
        ("GPTQ 8bit 32g", {"qweight": 1024 * 4096, "qzeros": 128 * 1024, "scales": 128 * 2048, "g_idx": 4096}),
    ],
)
def test_gptq_arrays_have_the_shapes_of_its_constructor(words, arrays):
    """In 32-bit words."""
    found = find_scheme(words)
    assert {a.name: array_bytes(found, a, 4096, 4096) // 4 for a in found.packing.arrays} == arrays


def test_a_gptq_group_may_be_a_whole_row():
    scales = scheme("GPTQ", 4, -1)
    assert packed_bytes(scales, 4096, 11008) == (11008 // 8 * 4096 + 4096 // 8 + 4096 // 2 + 11008) * 4


def test_fp8_blocks_are_counted_in_both_directions():
    """The smallest matrix of DeepSeek-V3 with FP8 blocks: kv_a_proj_with_mqa, 576 x 7168."""
    assert packed_bytes(find_scheme("FP8 block"), 576, 7168) == 576 * 7168 + 5 * 56 * 4


def test_torchao_pads_rows():
    assert packed_bytes(find_scheme("torchao int4"), 320, 1280) == 320 * 2048 // 2 + 320 * 16 * 4


def test_exl3_has_a_scale_for_each_input_and_output():
    assert packed_bytes(find_scheme("EXL3 4bpw"), 4096, 11008) == 4096 * 11008 // 2 + 2 * (4096 + 11008)


@pytest.mark.parametrize("name", packings())
def test_packed_bits_are_near_the_label(name):
    found = scheme(name)
    bits = packed_bytes(found, 4096, 4096) * 8 / 4096**2
    assert found.bits <= bits <= found.bits * 1.13
    assert packed_bytes(found, 8192, 4096) == pytest.approx(2 * packed_bytes(found, 4096, 4096), rel=0.01)


@pytest.mark.parametrize(
    ("words", "name", "bits", "group"),
    [
        ("AWQ", "AWQ", 4, 128),
        ("gptq-8bit-32g", "GPTQ", 8, 32),
        ("GPTQ-Int8", "GPTQ", 8, 128),
        ("EXL2 4.65bpw", "EXL2", 4.65, -1),
        ("mlx-6bit", "MLX", 6, 64),
        ("bnb-4bit", "bitsandbytes 4-bit", 4, 64),
        ("bnb-8bit", "LLM.int8", 8, -1),
        ("unsloth-bnb-4bit", "bitsandbytes 4-bit double", 4, 64),
        ("W4A16-G32", "W4A16", 4, 32),
        ("torchao int4 g64", "torchao int4", 4, 64),
        ("fp8", "FP8 per channel", 8, -1),
    ],
)
def test_a_written_quant_finds_its_packing_scheme(words, name, bits, group):
    found = find_scheme(words)
    assert (found.packing.name, found.bits, found.group) == (name, bits, group)


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("awk", "no quant 'awk'", "AWQ"),
        ("GPTQ 5bit", "no 5 bits", "2, 3, 4, 8"),
        ("exl2 9.5bpw", "no 9.5 bits", "2 to 8"),
        ("mlx g7", "no groups of 7", "32, 64, 128"),
        ("", "no quant ''", "GPTQ"),
        ("9" * 9999 + "g", "no quant", "AWQ"),
    ],
)
def test_an_unknown_packing_scheme_is_a_user_error(words, message, hint):
    with pytest.raises(UserError, match=message) as raised:
        find_scheme(words)
    assert hint in raised.value.hint
