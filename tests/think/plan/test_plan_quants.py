"""Which quants can be had of a file, the finest first."""

from itertools import pairwise

import pytest

from unslow.catalog.mixes import mixes
from unslow.think.plan.quants import candidate_quants, finest_first


def test_a_file_can_only_lose_bits():
    found = candidate_quants("Q5_K_M", mixes())
    assert found[0] == "Q5_K_M"
    assert "Q4_K_M" in found
    assert not {"Q8_0", "Q6_K", "F16"} & set(found)


@pytest.mark.parametrize("name", ["F16", "BF16", "q8_0", "Q6_K_L", "IQ2_XXS"])
def test_the_finest_comes_first(name):
    bits = [mixes()[quant].bits_per_weight for quant in candidate_quants(name, mixes())]
    assert all(finer >= coarser for finer, coarser in pairwise(bits))


def test_only_mixes_that_llama_quantize_makes_are_offered():
    assert all(not mixes()[quant].like for quant in candidate_quants("F16", mixes()))


@pytest.mark.parametrize("name", ["UD-Q4_K_XL", "AWQ", "NVFP4"])
def test_of_what_is_no_mix_nothing_is_made(name):
    assert candidate_quants(name, mixes()) == (name,)


def test_of_quantised_experts_nothing_is_made():
    assert candidate_quants("MXFP4", mixes()) == ("MXFP4_MOE",)


def test_files_in_order_those_of_unknown_bits_last():
    assert finest_first(["UD-Q4_K_XL", "Q4_K_M", "F16", "Q4_K_M", "IQ4_XS"]) == (
        "F16",
        "Q4_K_M",
        "IQ4_XS",
        "UD-Q4_K_XL",
    )
