"""The metadata keys that llama.cpp reads, with one number for the model or one for each layer."""

import msgspec

from unslow.catalog.architectures import Layout, layouts
from unslow.catalog.models import well_known
from unslow.think.blueprints import made_up_metadata


def of(stem):
    model = well_known()[stem]
    return made_up_metadata(model.architecture, layouts()[model.architecture], msgspec.structs.asdict(model.shape))


def test_values_that_differ_by_layer_are_lists_and_unknown_ones_are_left_out():
    layout = Layout(
        numbers={"twice": "2 * each", "later": "layer >= 1", "stated": "layer"},
        metadata={
            "a": "each",
            "b": "twice",
            "c": "later",
            "d": "one",
            "e": "nothing",
            "f": 1e-5,
            "g": "stated",
            "h": [1, 2],
        },
    )
    stated = {"layers": 3, "each": [1, 5], "one": 7, "stated": 9}
    assert made_up_metadata("x", layout, stated) == {
        "x.a": [1, 5, 1],
        "x.b": [2, 10, 2],
        "x.c": [0, 1, 1],
        "x.d": 7,
        "x.f": 1e-5,
        "x.g": 9,
        "x.h": [1, 2],
    }


def test_dense_model_has_single_values():
    keys = of("llama-3.1-8b")
    assert keys["llama.context_length"] == 131072
    assert keys["llama.attention.head_count_kv"] == 8
    assert keys["llama.attention.key_length"] == 128
    assert keys["llama.vocab_size"] == 128256
    assert "llama.expert_count" not in keys


def test_hybrid_model_lists_kv_heads_by_layer():
    keys = of("granite-4.0-h-tiny")
    heads = keys["granitehybrid.attention.head_count_kv"]
    assert [n for n, kv_heads in enumerate(heads) if kv_heads] == [5, 15, 25, 35]
    assert keys["granitehybrid.attention.head_count"] == 12


def test_sliding_window_pattern_is_listed_by_layer():
    keys = of("gemma-4-31b")
    assert keys["gemma4.attention.sliding_window_pattern"] == [1, 1, 1, 1, 1, 0] * 10
    assert keys["gemma4.attention.head_count_kv"] == [16, 16, 16, 16, 16, 4] * 10
    assert keys["gemma4.embedding_length_per_layer_input"] == 0
