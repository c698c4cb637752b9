"""Quality cost of a quantized KV cache, for both halves and each alone, and the models that lose more."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.think.plan.quality import cost_of_cache

LLAMA = 8_030_000_000
BY_BITS = ["f16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]


def test_q8_0_cache_has_the_published_cost():
    loss = cost_of_cache("q8_0", "Q8_0", LLAMA, "llama")
    assert loss.increase == pytest.approx(6.234369 / 6.232196 - 1)
    assert loss.kl == 0.000980
    assert not loss.at_least


def test_separately_measured_halves_are_added():
    keys, values = cost_of_cache("q8_0", "f16", LLAMA), cost_of_cache("f16", "q5_1", LLAMA)
    both = cost_of_cache("q8_0", "q5_1", LLAMA)
    assert both.increase == pytest.approx(keys.increase + values.increase)
    assert both.kl == pytest.approx(keys.kl + values.kl)


def test_unmeasured_half_is_unknown():
    loss = cost_of_cache("q8_0", "q4_0", LLAMA)
    assert (loss.increase, loss.kl) == (None, None)
    assert "no published" in loss.words


def test_unrotated_cost_is_at_least_the_rotated_one():
    rotated, plain = (cost_of_cache("q4_0", "q4_0", LLAMA, rotated=r) for r in (True, False))
    assert rotated.increase == pytest.approx(7.3833 / 7.2256 - 1)
    assert not rotated.at_least
    assert plain.at_least
    assert plain.increase >= rotated.increase
    assert "at least" in plain.words


def test_rotation_reduces_the_cost_of_low_bit_keys():
    rotated, plain = (cost_of_cache("q4_0", "f16", 30_000_000_000, "qwen3moe", rotated=r) for r in (True, False))
    assert plain.increase > 10 * rotated.increase


def test_small_model_loses_far_more_than_a_large_one():
    small, large = (cost_of_cache("q4_0", "q4_0", n, "qwen3", rotated=True) for n in (600_000_000, LLAMA))
    assert small.increase > 1
    assert large.increase < 0.1


def test_low_bit_cache_warns_about_depth():
    assert "grows with context length" in cost_of_cache("q5_0", "f16", LLAMA).words
    assert "grows with context length" not in cost_of_cache("q8_0", "q8_0", LLAMA).words


@pytest.mark.parametrize(("cache", "kl"), [("q8_0", 0.377), ("q4_0", 1.088), ("q5_1", None)])
def test_sensitive_model_has_only_its_measured_divergence(cache, kl):
    loss = cost_of_cache(cache, cache, 26_000_000_000, "gemma4")
    assert (loss.increase, loss.kl) == (None, kl)
    assert "Gemma 4" in loss.words
    assert loss.sources


def test_qwen_2_keys_tolerate_8_bits_but_not_4():
    assert cost_of_cache("q8_0", "q8_0", LLAMA, "qwen2").increase == cost_of_cache("q8_0", "q8_0", LLAMA).increase
    assert cost_of_cache("q4_0", "q8_0", LLAMA, "qwen2").increase is None
    assert "garbage" in cost_of_cache("q4_0", "f16", LLAMA, "qwen2").words
    assert "garbage" not in cost_of_cache("f16", "q5_1", LLAMA, "qwen2").words


def test_hybrid_models_are_measured_separately():
    hybrid, plain = (cost_of_cache("q4_0", "q4_0", 35_000_000_000, a) for a in ("qwen35moe", "llama"))
    assert hybrid.increase == pytest.approx(6.142 / 6.121 - 1)
    assert plain.increase > 10 * hybrid.increase


@given(st.integers(10**8, 10**12), st.sampled_from(BY_BITS), st.booleans())
@settings(max_examples=20, deadline=None)
def test_both_halves_never_cost_less_than_keys_alone(parameters, cache, rotated):
    both = cost_of_cache(cache, cache, parameters, rotated=rotated).increase
    keys = cost_of_cache(cache, "f16", parameters, rotated=rotated).increase
    assert both is None or both >= keys


@pytest.mark.parametrize("name", ["auto", "", "bfloat16", "F16", "float32"])
def test_names_of_sixteen_bit_types_cost_nothing(name):
    assert cost_of_cache(name, name, LLAMA).increase == 0


def test_vllm_fp8_names_are_equivalent():
    assert cost_of_cache("fp8", "fp8", LLAMA) == cost_of_cache("fp8_e4m3", "fp8_e4m3", LLAMA)
    assert cost_of_cache("fp8_e5m2", "fp8_e5m2", LLAMA).increase is None
