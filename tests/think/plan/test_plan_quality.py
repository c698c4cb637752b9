"""Quality cost of quants and caches: as published, never less for fewer bits, and unknown where not measured."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.catalog.quality import figures
from unslow.catalog.quants import mixes
from unslow.think.plan.quality import cost_of_weights, is_equal_quality, never_worse_than, quality_cost, shown_quality

MEASURED = sorted({f.row.quant for f in figures() if f.row.quant})
TYPES = ["f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "iq4_nl", "q4_0", "fp8", "f32"]
SIZES = st.integers(10**8, 10**12)


def weights(quant, parameters=8_030_000_000, architecture="llama"):
    return quality_cost(quant, "f16", "f16", parameters, architecture)


def test_q4_k_m_of_an_8b_has_the_published_cost():
    cost = weights("Q4_K_M")
    assert cost.perplexity_increase == pytest.approx(6.407115 / 6.233160 - 1)
    assert cost.kl_divergence == 0.031273
    assert "Llama 3 8B" in cost.words
    assert "tools/perplexity/README.md" in cost.sources[0]


def test_nearest_measured_model_size_is_used_and_named():
    assert "Llama 3 70B" in weights("Q4_K_M", 72_000_000_000).words
    assert "Qwen2.5 1.5B" in weights("Q5_K_M", 1_700_000_000).words


def test_old_model_is_used_only_without_newer_measurements():
    assert weights("Q6_K", 7_000_000_000).perplexity_increase == weights("Q6_K").perplexity_increase
    assert "Llama 2 13B" in weights("AWQ", 13_000_000_000).words


@given(SIZES, st.sampled_from(["", "llama", "qwen2", "qwen35", "gemma4", "gpt-oss"]))
@settings(max_examples=8, deadline=None)
def test_sixteen_bits_cost_nothing(parameters, architecture):
    for quant in ("F16", "BF16", "fp16", "F32"):
        cost = quality_cost(quant, "f16", "bf16", parameters, architecture)
        assert (cost.perplexity_increase, cost.kl_divergence, cost.words, cost.sources) == (0, 0, "", ())


@given(SIZES, st.sampled_from(MEASURED))
@settings(max_examples=20, deadline=None)
def test_quant_never_costs_less_than_a_better_one(parameters, quant):
    increase = cost_of_weights(quant, parameters).increase
    assert increase >= 0
    for better in never_worse_than(quant):
        assert cost_of_weights(better, parameters).increase <= increase


def test_order_of_quants_is_the_known_one():
    assert {"Q4_K_M", "Q5_K_S", "Q6_K", "Q8_0"} <= never_worse_than("Q4_0")
    assert never_worse_than("Q8_0") == set()
    assert all(quant not in never_worse_than(quant) for quant in MEASURED)


def test_unmeasured_quant_costs_at_least_a_better_one():
    cost = weights("Q4_0", 70_600_000_000)
    assert cost.perplexity_increase >= weights("Q4_K_S", 70_600_000_000).perplexity_increase
    assert cost.is_at_least
    assert "which it never beats" in cost.words


@given(SIZES, st.sampled_from(MEASURED), st.sampled_from(TYPES), st.sampled_from(TYPES), st.booleans())
@settings(max_examples=30, deadline=None)
def test_weight_and_cache_costs_multiply(parameters, quant, keys, values, rotated):
    both = quality_cost(quant, keys, values, parameters, rotated=rotated)
    alone, cache = weights(quant, parameters, ""), quality_cost("F16", keys, values, parameters, rotated=rotated)
    if cache.perplexity_increase is None:
        assert both.perplexity_increase is None
    else:
        expected = (1 + alone.perplexity_increase) * (1 + cache.perplexity_increase)
        assert 1 + both.perplexity_increase == pytest.approx(expected)
        assert set(both.sources) == {*alone.sources, *cache.sources}
    if alone.kl_divergence is not None and cache.kl_divergence is not None:
        assert both.kl_divergence == pytest.approx(alone.kl_divergence + cache.kl_divergence)
    else:
        assert both.kl_divergence is None


@pytest.mark.parametrize("quant", ["UD-Q4_K_XL", "EXL3 4.0bpw", "no such thing", "TQ1_0", ""])
def test_unpublished_quant_is_unknown_with_the_reason(quant):
    cost = weights(quant)
    assert (cost.perplexity_increase, cost.kl_divergence) == (None, None)
    assert "no published" in cost.words


def test_unknown_model_size_gives_no_cost(wording):
    cost = quality_cost("Q4_K_M", "q8_0", "q8_0", 0)
    assert cost.perplexity_increase is None
    wording(cost.words)


def test_q4_k_l_costs_the_same_as_q4_k_m():
    assert weights("Q4_K_L").perplexity_increase == weights("Q4_K_M").perplexity_increase
    assert "(as Q4_K_M)" in weights("Q4_K_L").words


@pytest.mark.parametrize("architecture", ["gpt-oss", "gpt_oss"])
def test_native_quant_of_a_model_costs_nothing(architecture):
    assert weights("MXFP4", 20_000_000_000, architecture).perplexity_increase == 0
    assert weights("MXFP4", 20_000_000_000, "qwen3moe").perplexity_increase is None


def test_word_perplexity_is_labelled():
    cost = weights("FP8")
    assert cost.perplexity_increase == pytest.approx(7.4197 / 7.3315 - 1)
    assert "per word" in cost.words


@pytest.mark.parametrize("parameters", [1_000_000_000, 8_000_000_000, 30_000_000_000, 70_000_000_000, 671_000_000_000])
@pytest.mark.parametrize("rotated", [True, False])
@pytest.mark.parametrize("quant", ["Q4_K_M", "UD-Q4_K_XL"])
def test_q8_0_cache_is_equal_quality(quant, parameters, rotated):
    full, half = (quality_cost(quant, t, t, parameters, "llama", rotated=rotated) for t in ("f16", "q8_0"))
    assert is_equal_quality(full, half)
    assert is_equal_quality(half, full)


@pytest.mark.parametrize(
    ("keys", "values", "architecture"),
    [
        ("q4_0", "q4_0", "llama"),
        ("q4_0", "f16", "llama"),
        ("q8_0", "q4_0", "llama"),
        ("q8_0", "q8_0", "gemma4"),
        ("q8_0", "q8_0", "gpt-oss"),
        ("q4_0", "q4_0", "qwen35"),
    ],
)
def test_other_caches_are_not_equal_quality(keys, values, architecture):
    full = quality_cost("Q4_K_M", "f16", "f16", 27_000_000_000, architecture)
    assert not is_equal_quality(full, quality_cost("Q4_K_M", keys, values, 27_000_000_000, architecture))


def test_quants_are_equal_only_where_measurements_say_so():
    assert is_equal_quality(weights("Q8_0"), weights("F16"))
    assert not is_equal_quality(weights("Q6_K"), weights("Q8_0"))
    assert not is_equal_quality(weights("UD-Q4_K_XL"), weights("Q4_K_M"))
    assert not is_equal_quality(weights("Q4_0", 70_000_000_000), weights("IQ4_XS", 70_000_000_000))


@given(SIZES, st.sampled_from(sorted(mixes())), st.sampled_from(TYPES), st.sampled_from(TYPES))
@settings(max_examples=15, deadline=None)
def test_every_setting_is_equal_to_itself(parameters, quant, keys, values):
    cost = quality_cost(quant, keys, values, parameters)
    assert is_equal_quality(cost, cost)


def test_report_shows_the_cost_unchanged():
    cost = quality_cost("Q4_K_M", "q8_0", "q8_0", 8_030_000_000)
    assert shown_quality(cost).perplexity_increase == cost.perplexity_increase
    assert shown_quality(cost).sources == cost.sources
    assert "assumed independent" in shown_quality(cost).words
