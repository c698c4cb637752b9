"""What several GPUs add: nothing for one GPU, and never less for one more."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.catalog.learned_speed import learned_speed
from unslow.think.physics.placement import (
    LINK,
    SPLIT_BY_ROW,
    SPLIT_BY_TENSOR,
    layer_split_terms,
    offload_terms,
    tensor_split_terms,
)
from unslow.think.physics.terms import total_of_terms

FACTORS = learned_speed().factors
gpus = st.integers(1, 15)


def by_layers(count, weights_s=0.01):
    return total_of_terms(layer_split_terms(float(count), "cuda", weights_s), FACTORS)


def by_tensors(count, split=SPLIT_BY_TENSOR, layers=32.0, width=4096.0, *, peers=True, linked=False):
    return total_of_terms(tensor_split_terms(float(count), layers, width, split, peers=peers, linked=linked), FACTORS)


def test_one_gpu_has_no_link_time():
    assert by_layers(1) == 0


@settings(max_examples=30)
@given(gpus, st.floats(0, 1))
def test_one_more_gpu_adds_a_crossing(count, weights_s):
    assert by_layers(count + 1, weights_s) > by_layers(count, weights_s)


@settings(max_examples=30)
@given(gpus, st.sampled_from((SPLIT_BY_ROW, SPLIT_BY_TENSOR)), st.integers(1, 200), st.floats(256, 16384))
def test_gathering_costs_more_with_gpus_layers_and_width(count, split, layers, width):
    usual = by_tensors(count, split, float(layers), width)
    assert by_tensors(count + 1, split, float(layers), width) > usual
    assert by_tensors(count, split, layers + 1.0, width) > usual
    assert by_tensors(count, split, float(layers), width * 2) >= usual


@pytest.mark.parametrize("split", [SPLIT_BY_ROW, SPLIT_BY_TENSOR])
def test_gpus_without_peer_access_wait_longer(split):
    assert by_tensors(4, split, peers=False) > by_tensors(4, split)


def test_nvlink_shortens_gathering():
    assert by_tensors(8, linked=True) < 0.5 * by_tensors(8)


def test_host_crossings_cost_the_same_each():
    one, ten = (total_of_terms(offload_terms(n, "cuda"), FACTORS) for n in (1.0, 10.0))
    assert ten == pytest.approx(10 * one)
    assert 1e-6 < one < 1e-3


def test_every_split_term_is_link_time():
    by_row = tensor_split_terms(2.0, 32.0, 4096.0, SPLIT_BY_ROW, peers=True, linked=False)
    assert {term.part for term in (*layer_split_terms(2.0, "cuda", 1.0), *by_row, *offload_terms(1.0, "cuda"))} == {
        LINK
    }
