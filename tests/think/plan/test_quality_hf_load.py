"""Per-token load of a model by its config, against the same by its tensors; and models known by facts alone."""

import pytest

from unslow.catalog.models import find_model
from unslow.catalog.weight_parts import parts_of_shape, plain_storage
from unslow.facts.model import HfShape, LayerKind, Model
from unslow.facts.values import reported_fact
from unslow.think.blueprints import made_up, shape_of_blueprint, shape_of_facts
from unslow.think.plan.quality import FULL, hf_cost, hf_quality, is_as_good
from unslow.think.speed.load import hf_load, model_load, totals


@pytest.mark.parametrize("name", ["llama 3.1 8b", "qwen3 30b a3b", "gemma 3 12b", "deepseek v3", "qwen3 next 80b"])
def test_load_by_config_agrees_with_tensors(name: str) -> None:
    plan = made_up(find_model(name), "F16")
    shape = shape_of_blueprint(plan)
    by_config = totals(hf_load(shape, parts_of_shape(shape, plain_storage(2)), "f16"))
    by_tensors = totals(model_load(plan))
    for field in ("dense_bytes", "dense_weights", "expert_bytes", "expert_weights", "output_weights"):
        assert getattr(by_config, field) == pytest.approx(getattr(by_tensors, field), rel=0.08), field
    for field in ("layers", "expert_layers", "experts", "experts_used", "width", "window", "state_layers"):
        assert getattr(by_config, field) == getattr(by_tensors, field), field
    assert by_config.cache_elements(5000.0) == pytest.approx(by_tensors.cache_elements(5000.0), rel=0.01)


def test_packed_weights_have_their_type_class() -> None:
    shape = HfShape(
        layers=2, width=64, vocabulary=100, heads=4, kv_heads=2, key_length=16, value_length=16, feed_forward=128,
        tied=True, kinds=(LayerKind.FULL, LayerKind.BARE),
    )  # fmt: skip
    load = hf_load(shape, parts_of_shape(shape, plain_storage(1)), "q8")
    assert set(load.layers[0].kinds) == {"q8_0"}
    assert load.output_kind == "f16"
    assert load.table_bytes == 0
    assert load.layers[1].key_elements == 0
    assert load.layers[1].score_products == 0


def facts(**values: int) -> Model:
    usual = {
        "layers": 32, "width": 4096, "heads": 32, "kv_heads": 8, "key_length": 128, "vocabulary": 128256,
        "parameters": 8_030_261_248,
    }  # fmt: skip
    return Model(**{name: reported_fact(value, "told") for name, value in {**usual, **values}.items()})


def test_dense_shape_is_derived_from_facts() -> None:
    shape = shape_of_facts(facts())
    assert shape
    assert shape.feed_forward == pytest.approx(14336, rel=0.001)
    assert shape.kv_heads == 8


@pytest.mark.parametrize("odd", [{"experts": 8}, {"layers": 0}, {"parameters": 1000}])
def test_insufficient_facts_give_no_shape(odd: dict[str, int]) -> None:
    assert shape_of_facts(facts(**odd)) is None
    assert shape_of_facts(Model()) is None


def test_full_precision_costs_nothing_and_fp8_cache_little() -> None:
    assert hf_quality("BF16", "f16", "auto", 8_000_000_000, "llama").words == FULL
    packed = hf_quality("BF16", "f16", "fp8", 8_000_000_000, "llama")
    assert packed.perplexity_increase is not None
    assert 0 < packed.perplexity_increase < 0.01
    assert packed.sources
    plain, fp8 = (hf_cost("BF16", "f16", kind, 8_000_000_000, "llama") for kind in ("auto", "fp8"))
    assert is_as_good(plain, fp8)
    assert is_as_good(plain, plain)
    assert not is_as_good(hf_cost("AWQ", "q4", "auto", 8_000_000_000, "llama"), plain)
