"""What several GPUs add: nothing where there is one, and never less for one more."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.catalog.learned_speed import learned_speed
from unslow.think.physics.links import (
    LINK,
    SPLIT_BY_ROW,
    SPLIT_BY_TENSOR,
    layer_split_terms,
    offload_terms,
    tensor_split_terms,
    ways_between,
)
from unslow.think.physics.terms import total_of_terms

FACTORS = learned_speed().factors
gpus = st.integers(1, 15)


def by_layers(count, weights_s=0.01):
    return total_of_terms(layer_split_terms(float(count), "cuda", weights_s), FACTORS)


def by_tensors(count, split=SPLIT_BY_TENSOR, layers=32.0, width=4096.0, *, peers=True, linked=False):
    return total_of_terms(
        tensor_split_terms(float(count), layers, width, split, ways_between(peers=peers, linked=linked)), FACTORS
    )


def test_one_gpu_has_nobody_to_send_to():
    assert by_layers(1) == 0


@settings(max_examples=30)
@given(gpus, st.floats(0, 1))
def test_one_more_gpu_means_one_more_crossing(count, weights_s):
    assert by_layers(count + 1, weights_s) > by_layers(count, weights_s)


@settings(max_examples=30)
@given(gpus, st.sampled_from((SPLIT_BY_ROW, SPLIT_BY_TENSOR)), st.integers(1, 200), st.floats(256, 16384))
def test_gathering_costs_more_with_more_gpus_layers_and_width(count, split, layers, width):
    usual = by_tensors(count, split, float(layers), width)
    assert by_tensors(count + 1, split, float(layers), width) > usual
    assert by_tensors(count, split, layers + 1.0, width) > usual
    assert by_tensors(count, split, float(layers), width * 2) >= usual


@pytest.mark.parametrize("split", [SPLIT_BY_ROW, SPLIT_BY_TENSOR])
def test_gpus_that_can_not_talk_directly_wait_longer(split):
    assert by_tensors(4, split, peers=False) > by_tensors(4, split)


def test_gpus_with_links_of_their_own_wait_less():
    assert by_tensors(8, linked=True) < 0.5 * by_tensors(8)


def test_every_crossing_to_the_host_costs_the_same():
    one, ten = (total_of_terms(offload_terms(n, "cuda"), FACTORS) for n in (1.0, 10.0))
    assert ten == pytest.approx(10 * one)
    assert 1e-6 < one < 1e-3


def test_all_of_it_is_the_link():
    terms = [*layer_split_terms(2.0, "cuda", 1.0), *tensor_split_terms(2.0, 32.0, 4096.0, SPLIT_BY_ROW, ())]
    assert {term.part for term in (*terms, *offload_terms(1.0, "cuda"))} == {LINK}
