"""Model shapes from `config.json`, compared with Transformers 5.22 on the same file."""

import json
from pathlib import Path

import pytest

from unslow.catalog.architectures import config_defaults
from unslow.look.models.hf_config import INNER, hf_shape, parse_config
from unslow.look.system import LookError

CONFIGS = {path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "configs").iterdir())}
NAMES = {
    "num_hidden_layers": "layers",
    "hidden_size": "width",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim",
    "vocab_size": "vocabulary",
    "intermediate_size": "intermediate",
    "tie_word_embeddings": "tied",
    "model_type": "model_type",
}
LATENT = ("deepseek_v3",)  # whose head_dim is, for Transformers, only that of the rotary part


def check(shape, wanted, but=()):
    for theirs, ours in NAMES.items():
        if theirs in wanted and ours not in but:
            number = max(wanted[theirs]) if isinstance(wanted[theirs], list) else wanted[theirs]
            assert shape.get(ours) == number, ours
    if "layer_types" in wanted:
        assert [kind.replace("mamba", "linear_attention") for kind in shape["layer_types"]] == wanted["layer_types"]


@pytest.mark.parametrize("name", list(CONFIGS))
def test_shapes_match_what_transformers_reads(name):
    case = CONFIGS[name]
    check(hf_shape(case["config"]), case["transformers"], but=("head_dim",) if name in LATENT else ())


def silent(config):
    """The config without its list of layers, and without what a nested one may leave out."""
    plain = {k: v for k, v in config.items() if k not in ("layer_types", "_sliding_window_pattern")}
    for name in INNER:
        if isinstance(plain.get(name), dict):
            inner = silent(plain[name])
            defaults = config_defaults(inner["model_type"])
            plain[name] = {k: v for k, v in inner.items() if defaults.get(k, ...) != v}
    return plain


@pytest.mark.parametrize(
    "name", [name for name in CONFIGS if silent(CONFIGS[name]["config"]) != CONFIGS[name]["config"]]
)
def test_defaults_that_transformers_omits_are_filled_in(name):
    check(hf_shape(silent(CONFIGS[name]["config"])), CONFIGS[name]["transformers"])


def test_gemma_3_4b_heads_are_filled_in():
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }  # all that its publisher's config.json says of the language model
    shape = hf_shape({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": text})
    assert (shape["heads"], shape["kv_heads"], shape["head_dim"]) == (8, 4, 256)
    assert shape["sliding_window"] == 1024
    assert shape["layer_types"].count("full_attention") == 5


def test_old_gpt_2_key_names_are_read():
    shape = hf_shape({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_ctx": 1024, "n_inner": None})
    assert (shape["layers"], shape["width"], shape["heads"], shape["kv_heads"]) == (12, 768, 12, 12)
    assert (shape["head_dim"], shape["intermediate"], shape["context"]) == (64, 3072, 1024)


def test_multi_query_attention_has_one_kv_head():
    falcon = {"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "num_kv_heads": 71}
    assert hf_shape({**falcon, "multi_query": True})["kv_heads"] == 1
    assert hf_shape({**falcon, "multi_query": True, "new_decoder_architecture": True})["kv_heads"] == 71


def test_latent_attention_dimensions_are_read():
    shape = hf_shape(CONFIGS["deepseek_v3"]["config"])
    assert (shape["kv_lora_rank"], shape["q_lora_rank"]) == (512, 1536)
    assert (shape["qk_rope_head_dim"], shape["qk_nope_head_dim"], shape["v_head_dim"]) == (64, 128, 128)
    assert shape["head_dim"] == 192
    assert (shape["experts"], shape["experts_used"], shape["expert_intermediate"]) == (256, 8, 2048)
    assert (shape["shared_experts"], shape["dense_layers_first"]) == (1, 3)


def test_experts_without_their_own_width_use_the_intermediate_size():
    shape = hf_shape(CONFIGS["mixtral"]["config"])
    assert (shape["experts"], shape["experts_used"]) == (8, 2)
    assert shape["expert_intermediate"] == shape["intermediate"] == 14336


@pytest.mark.parametrize(
    ("config", "types"),
    [
        ({"hybrid_override_pattern": "M-M*E"}, ["mamba", "mlp", "mamba", "full_attention", "moe"]),
        ({"sliding_window": 4096, "sliding_window_pattern": "LLG"}, ["sliding_attention"] * 2 + ["full_attention"]),
        ({"attn_layer_indices": [1], "num_hidden_layers": 3}, ["mamba", "full_attention", "mamba"]),
        ({"full_attn_idxs": [0], "num_hidden_layers": 2}, ["full_attention", "conv"]),
        ({"attn_type_list": [0, 1], "num_hidden_layers": 2}, ["linear_attention", "full_attention"]),
        ({"hybrid_layer_pattern": [0, 1], "num_hidden_layers": 2}, ["full_attention", "sliding_attention"]),
        (
            {"linear_attn_config": {"full_attn_layers": [2]}, "num_hidden_layers": 3},
            ["linear_attention", "full_attention", "linear_attention"],
        ),
        ({"model_type": "mistral", "sliding_window": 4096, "num_hidden_layers": 2}, ["sliding_attention"] * 2),
        ({"model_type": "mistral", "sliding_window": None, "num_hidden_layers": 2}, ["full_attention"] * 2),
        (
            {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 1, "num_hidden_layers": 2},
            ["full_attention", "sliding_attention"],
        ),
        ({"sliding_window": 8, "use_sliding_window": False, "num_hidden_layers": 1}, ["full_attention"]),
        (
            {"block_types": ["recurrent", "attention"], "attention_window_size": 2048, "num_hidden_layers": 3},
            ["recurrent", "sliding_attention", "recurrent"],
        ),
        ({"model_type": "mamba2", "num_hidden_layers": 2}, ["mamba", "mamba"]),
    ],
)
def test_layer_types_are_read_from_every_dialect(config, types):
    config = {"num_hidden_layers": len(types), **config}
    assert hf_shape(config)["layer_types"] == types


def test_an_unused_sliding_window_is_dropped():
    assert "sliding_window" not in hf_shape({"sliding_window": 8, "use_sliding_window": False, "num_hidden_layers": 1})


def test_per_layer_kv_heads_are_kept_with_their_maximum():
    shape = hf_shape({"num_kv_heads": [1, 4, 2], "num_query_heads": [8, 8, 8], "num_hidden_layers": 3})
    assert shape["kv_heads"] == 4
    assert shape["kv_heads_per_layer"] == [1, 4, 2]


def test_an_empty_config_gives_an_empty_shape():
    assert hf_shape({}) == {"tied": True}


@pytest.mark.parametrize(
    "text", ["", "[", "[]", "3", "{" * 5000, '{"a": ' + "[" * 100_000, '{"a": ' + "9" * 5000 + "}"]
)
def test_an_invalid_config_is_a_look_error(text):
    with pytest.raises(LookError):
        parse_config(text.encode(), "config.json")


def test_long_and_deep_config_values_are_dropped():
    config = parse_config(
        b'{"a": 1, "b": "' + b"x" * 1000 + b'", "c": [' + b"1," * 5000 + b'1], "d": {"e": {"ignore": ["x"]}},'
        b' "f": Infinity, "g": 1e300, "h": [1, 2]}',
        "config.json",
    )
    assert config == {"a": 1, "d": {"e": {}}, "f": None, "h": [1, 2]}


def test_values_of_wrong_types_are_ignored():
    hostile = {"num_hidden_layers": "many", "hidden_size": -1, "num_attention_heads": True, "vocab_size": "x"}
    assert hf_shape({**hostile, "layer_types": [1, 2], "text_config": {}}) == {"tied": True}


@pytest.mark.parametrize(
    "key", ["num_hidden_layers", "vocab_size", "hidden_size", "num_local_experts", "mamba_d_state"]
)
def test_an_impossible_number_is_refused_by_its_key(key, wording):
    with pytest.raises(LookError) as refused:
        hf_shape({"text_config": {key: 2**40}})
    wording(refused.value.why, tells=f"{key} = 1,099,511,627,776")
