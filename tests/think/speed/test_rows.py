"""Rows of measurement tables as people fill them."""

import pytest

from unslow.facts.values import Unknown
from unslow.think.physics.chip import type_class
from unslow.think.speed.named_models import mix_of, named_model
from unslow.think.speed.rows import cell_number, group_of, parse_row

ROW = {"hardware": "RTX 3090", "model": "Llama 3.1 8B", "quant": "Q4_K_M", "test": "tg128", "n_gpus": "1.0"}


@pytest.mark.parametrize(
    ("written", "parameters", "name"),
    [
        ("qwen3moe 30B.A3B Q4_K - Medium", 30.532e9, "Qwen3-30B-A3B"),
        ("llama 13B Q4_K - Medium", 23.572e9, "24B"),
        ("gpt-oss 120B MXFP4 MoE", 116.83e9, "gpt-oss-120b"),
        ("deepseek2 30B.A3B Q8_0", 29.94e9, "GLM-4.7-Flash"),
        ("llama 13B IQ3_S mix - 3.66 bpw", 14.66e9, "Phi-4"),
        ("Llama 2 70B", 68.98e9, "Llama-2-70B"),
        ("Qwen3.6-35B-A3B-abliterated-v4-GGUF", 0.0, "Qwen3.6-35B-A3B"),
        ("hunyuan-moe A13B Q6_K", 80.393e9, "Hunyuan-A13B"),
        ("gemma4 ?B IQ4_NL - 4.5 bpw", 11.91e9, "Gemma-4-12B"),
    ],
)
def test_models_are_recognized_from_tool_output(written, parameters, name):
    found = named_model(written, parameters)
    assert found is not None
    assert name in found.name


def test_unknown_model_is_not_guessed():
    assert named_model("reap50-q4") is None
    assert named_model("Mystery-35B-A3B") is None


@pytest.mark.parametrize(
    ("quant", "kind"),
    [("Q4_K_M", "k"), ("UD-Q4_K_XL", "k"), ("F16", "f16"), ("BF16", "f16"), ("Q8_0", "q8"), ("IQ2_XXS", "iq"),
     ("MXFP4", "q4"), ("awq-int4", "q4"), ("IQ4_NL", "q4"), ("fp8-dynamic", "q8")],
)  # fmt: skip
def test_quants_have_type_classes(quant, kind):
    assert type_class(quant) == kind


@pytest.mark.parametrize(
    ("quant", "mix"), [("UD-Q4_K_XL", "Q4_K_M"), ("fp16", "F16"), ("4bit", "Q4_0"), ("?", "Q4_K_M")]
)
def test_unknown_quants_map_to_a_similar_mix(quant, mix):
    assert mix_of(quant) == mix


@pytest.mark.parametrize(
    ("change", "group"),
    [
        ({}, "dense gpu"),
        ({"ctx_or_depth": "8192"}, "deep context"),
        ({"test": "pp512"}, "prefill"),
        ({"n_gpus": "4"}, "several gpus"),
        ({"model": "Qwen3-30B-A3B"}, "moe"),
        ({"ngl": "12"}, "partial offload"),
        ({"ngl": "99 (n-cpu-moe 3)", "model": "gpt-oss-120b"}, "partial offload"),
        ({"hardware": "Raspberry Pi 5", "backend": "CPU"}, "cpu only"),
    ],
)
def test_rows_are_grouped(change, group):
    found = parse_row(ROW | change)
    assert not isinstance(found, Unknown)
    assert group_of(found) == group


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"hardware": "Abacus 3000"}, "device"),
        ({"model": "reap50-q4"}, "model"),
        ({"test": "perplexity"}, "test"),
        ({"ngl": "0"}, "CPU"),
    ],
)
def test_row_that_is_not_understood_says_why(change, why):
    found = parse_row(ROW | change)
    assert isinstance(found, Unknown)
    assert why in found.why


@pytest.mark.parametrize("text", ["", "nan", "inf", "-3", "many", None])
def test_invalid_number_cells_are_zero(text):
    assert cell_number(text) == 0.0


def test_split_mode_follows_build_date_and_runtime():
    assert parse_row(ROW | {"n_gpus": "2", "date_or_build": "2023-12"}).split == "row"
    assert parse_row(ROW | {"n_gpus": "2", "date_or_build": "2024-05"}).split == "layer"
    assert parse_row(ROW | {"n_gpus": "2", "runtime": "vllm 0.25.0"}).split == "tensor"
