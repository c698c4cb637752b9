"""Speed by properties that hold for any model, chip and depth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.catalog.learned_speed import learned_speed
from unslow.catalog.models import find_model
from unslow.think.blueprints import made_up
from unslow.think.physics.chip import Chip, SpeedSetting
from unslow.think.physics.placement import SPLIT_BY_LAYER, SPLIT_BY_ROW, SPLIT_BY_TENSOR
from unslow.think.speed.load import model_load, totals
from unslow.think.speed.question import (
    USUAL_HOST,
    SpeedQuestion,
    decode_outcome,
    prefill_outcome,
    prompt_terms,
    prompt_token_seconds,
    step_seconds,
    step_terms,
)
from unslow.think.speed.rows import on_gpu, placed_on_host

MODELS = ("llama-3.1-8b", "gpt-oss-20b", "qwen3-30b-a3b", "gemma-3-27b", "qwen3.5-35b-a3b", "deepseek-v2-lite")
LOADS = {name: model_load(made_up(find_model(name), "Q4_K_M")) for name in MODELS}
WHOLE = {name: totals(load) for name, load in LOADS.items()}
CHIP = Chip(1e12, 4e13, 1.6e14, 350.0)
BACKENDS = ("cuda", "rocm", "metal", "vulkan")
models = st.sampled_from(MODELS)
backends = st.sampled_from(BACKENDS)
depths = st.floats(0, 131072)
some = settings(max_examples=40, deadline=None)
"""A property that one term breaks is broken by many examples; each prices a whole model."""


def question(model, backend="cuda", chip=CHIP, **more):
    return SpeedQuestion(WHOLE[model], chip, SpeedSetting(backend), 2026.0, **more)


@some
@given(models, backends, depths, st.floats(1.01, 10))
def test_more_bandwidth_is_never_slower(model, backend, depth, factor):
    quick = CHIP._replace(bytes_per_s=CHIP.bytes_per_s * factor)
    assert step_seconds(question(model, backend, quick, depth=depth)) < step_seconds(
        question(model, backend, depth=depth)
    )


@some
@given(models, backends, depths, st.floats(1, 10_000))
def test_deeper_token_is_never_faster(model, backend, depth, more):
    assert step_seconds(question(model, backend, depth=depth + more)) >= step_seconds(
        question(model, backend, depth=depth)
    )


@some
@given(models, backends, depths)
def test_no_prediction_beats_the_bandwidth_ceiling(model, backend, depth):
    out = decode_outcome(question(model, backend, depth=depth), "dense gpu")
    assert out.rate.low <= out.rate.mid <= out.rate.high
    assert out.rate.mid < out.ceiling
    assert sum(out.parts.values()) == pytest.approx(out.seconds)


@some
@given(models, st.integers(0, 99))
def test_layer_on_the_host_never_helps(model, layers):
    load = LOADS[model]
    setting = SpeedSetting("cuda")
    host = placed_on_host(load, layers, 0, USUAL_HOST, setting)
    split = SpeedQuestion(on_gpu(load, layers), CHIP, setting, 2026.0, host=host)
    assert step_seconds(split) >= step_seconds(question(model)) * 0.999


@pytest.mark.parametrize("model", MODELS)
def test_all_layers_on_the_gpu_leave_no_host_part(model):
    load = LOADS[model]
    assert placed_on_host(load, None, 0, USUAL_HOST, SpeedSetting("cuda")) is None
    assert on_gpu(load, None) == WHOLE[model]


@some
@given(models, st.integers(0, 60), st.integers(0, 60))
def test_every_weight_is_on_the_gpu_or_the_host(model, layers, experts):
    load = LOADS[model]
    whole = WHOLE[model]
    device = on_gpu(load, layers, experts)
    host = placed_on_host(load, layers, experts, USUAL_HOST, SpeedSetting("cuda"))
    held = host.totals if host else whole._replace(dense_bytes=0.0, expert_bytes=0.0)
    assert device.dense_bytes + held.dense_bytes == pytest.approx(whole.dense_bytes)
    assert device.expert_bytes + held.expert_bytes == pytest.approx(whole.expert_bytes)


@some
@given(models, st.integers(1, 64))
def test_larger_batch_takes_longer_but_gives_more_in_total(model, tokens):
    one, many = question(model), question(model, tokens=float(tokens))
    assert step_seconds(many) >= step_seconds(one) * 0.999
    assert step_seconds(many) < tokens * step_seconds(one) * 1.5


@some
@given(models, st.sampled_from((SPLIT_BY_LAYER, SPLIT_BY_ROW, SPLIT_BY_TENSOR)), st.integers(2, 8))
def test_layer_split_over_gpus_is_not_faster_than_one_gpu(model, split, gpus):
    seconds = step_seconds(question(model, gpus=float(gpus), split=split))
    if split == SPLIT_BY_LAYER:
        assert seconds > step_seconds(question(model))
    assert seconds > 0


@some
@given(models, backends, st.integers(1, 16384), st.floats(0, 65536))
def test_prefill_costs_more_at_depth(model, backend, tokens, depth):
    shallow, deep = question(model, backend), question(model, backend, depth=depth)
    assert prompt_token_seconds(deep, float(tokens)) >= prompt_token_seconds(shallow, float(tokens))


def test_arrays_are_priced_like_numbers():
    depth = np.array([0.0, 1000.0, 30000.0])
    rates = np.array([4e11, 1e12, 3e12])
    for model in MODELS:
        many = question(model, chip=CHIP._replace(bytes_per_s=rates), depth=depth, tokens=np.array([1.0, 8.0, 32.0]))
        each = [
            step_seconds(question(model, chip=CHIP._replace(bytes_per_s=float(r)), depth=float(d), tokens=t))
            for r, d, t in zip(rates, depth, (1.0, 8.0, 32.0), strict=True)
        ]
        assert np.allclose(np.asarray(step_seconds(many)), each)


def test_missing_graphs_hurt_small_models_most():
    small = SpeedQuestion(
        totals(model_load(made_up(find_model("smollm2-135m"), "Q4_K_M"))), CHIP, SpeedSetting("cuda"), 2026.0
    )
    large = question("gemma-3-27b")

    def loss(q):
        return step_seconds(q._replace(setting=q.setting._replace(graphs=False))) / step_seconds(q)

    assert loss(small) > 1.2 > loss(large) >= 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("split", [SPLIT_BY_LAYER, SPLIT_BY_ROW, SPLIT_BY_TENSOR])
def test_every_factor_of_a_backend_was_learned(backend, split):
    """A missing factor would count as 1: a second for each layer."""
    setting = SpeedSetting(backend, fused=False, packed_cache=True, slow_host=True)
    load = LOADS["qwen3.5-35b-a3b"]
    host = placed_on_host(load, 10, 20, USUAL_HOST, setting)
    q = SpeedQuestion(on_gpu(load, 10, 20), CHIP, setting, gpus=2.0, split=split, peers=False, host=host, tokens=32.0)
    names = {f.name for t in (*step_terms(q), *prompt_terms(q, 512.0)) for f in t.factors}
    known = learned_speed().factors
    shared = {n for n in names if n.count("/") <= 1 and not n.startswith(("types/", "prompt types/"))}
    assert not shared - known.keys()


def test_cpu_prefill_has_a_price():
    host = placed_on_host(LOADS["llama-3.1-8b"], 0, 0, USUAL_HOST, SpeedSetting("cpu"))
    q = SpeedQuestion(None, CHIP, SpeedSetting("cpu"), host=host)
    assert 1 < prefill_outcome(q, 512.0).rate.mid < 1000
