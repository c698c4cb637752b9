"""Several sequences in one step: more never cost less, and matrix units take over beyond a few."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.catalog.learned_speed import learned_speed
from unslow.think.physics.chip import Chip
from unslow.think.physics.decode import FEW, batched_product_terms
from unslow.think.physics.terms import Factor, at_most, total_of_terms

CHIP = Chip(1e12, 4e13, 1.6e14)
WEIGHTS = 8e9
FACTORS = learned_speed().factors
counts = st.integers(1, 512)


def seconds(tokens, met=WEIGHTS, chip=CHIP, learned=FACTORS):
    terms = batched_product_terms("compute", WEIGHTS, met, tokens, chip, (Factor("product/cuda"),), "cuda")
    return total_of_terms(terms, learned)


def test_one_sequence_costs_vector_arithmetic():
    assert seconds(1.0, learned={}) == pytest.approx(WEIGHTS / CHIP.flops_per_s)


@settings(max_examples=40)
@given(counts, counts)
def test_more_sequences_never_cost_less_on_the_same_units(one, other):
    few, many = sorted((one, other))
    if (few <= FEW) == (many <= FEW):
        assert seconds(float(few)) <= seconds(float(many)) * (1 + 1e-9)


@settings(max_examples=40)
@given(st.integers(2, 512))
def test_batching_is_never_slower_than_one_after_the_other(tokens):
    assert seconds(float(tokens)) < tokens * seconds(1.0)


@settings(max_examples=20)
@given(st.integers(FEW + 1, 512), st.floats(1, 8))
def test_experts_met_by_more_sequences_cost_more(tokens, more):
    assert seconds(float(tokens), met=WEIGHTS * more) >= seconds(float(tokens))


def test_array_is_priced_like_its_numbers():
    tokens = np.array([1.0, 4.0, FEW, FEW + 1.0, 64.0])
    assert seconds(tokens) == pytest.approx([seconds(float(n)) for n in tokens])
    assert at_most(tokens, FEW).tolist() == [1, 1, 1, 0, 0]
