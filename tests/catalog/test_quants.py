"""Block sizes of quants match their sources and files of known size."""

import re

import pytest

from unslow.catalog.quants import file_type_of_mix, file_types, quants, quants_by_ggml_type


@pytest.mark.parametrize("name", quants())
def test_block_bytes_are_the_sum_in_the_source(name):
    quant = quants()[name]
    fields = re.search(r"block_\w+: ([\d +]+)$", quant.source)
    if fields:
        assert quant.block_bytes == sum(int(n) for n in fields[1].split("+"))
    else:
        assert quant.block_elements == 1


@pytest.mark.parametrize("name", quants())
def test_quants_refer_to_existing_quants(name):
    quant = quants()[name]
    assert all(f.more_bits in quants() or not f.more_bits for f in quant.file_types)
    assert all(f.output in quants() or not f.output for f in quant.file_types)
    assert not quant.fallback or quants()[quant.fallback].block_elements < quant.block_elements
    assert all(0 <= offset <= quant.block_bytes - 2 for offset in quant.half_fields)


def test_ggml_types_and_file_types_are_unique():
    assert len(quants_by_ggml_type()) == len(quants())
    assert len(file_types()) == sum(len(q.file_types) for q in quants().values())


def test_every_ggml_and_llama_type_number_is_known():
    """Except withdrawn ones; sizes and labels were compared with ggml's own functions."""
    assert set(quants_by_ggml_type()) == set(range(43)) - {4, 5, 31, 32, 33, 36, 37, 38}
    assert set(file_types()) == set(range(42)) - {4, 5, 6, 33, 34, 35}


@pytest.mark.parametrize(
    ("name", "bits"),
    [("F16", 16), ("Q8_0", 8.5), ("Q6_K", 6.5625), ("Q4_K", 4.5), ("Q4_0", 4.5), ("IQ4_XS", 4.25), ("TQ1_0", 1.6875)],
)
def test_bits_per_weight_match_published_values(name, bits):
    assert quants()[name].bytes_of(2560) * 8 / 2560 == bits


def test_a_partial_block_takes_a_whole_one():
    assert quants()["Q4_0"].bytes_of(33) == 36


def test_file_types_are_found_by_number_and_mix():
    assert file_types()[15][0].name == "Q4_K_M"
    assert file_type_of_mix("Q4_K_M")[1].name == "Q4_K"
    with pytest.raises(KeyError):
        file_type_of_mix("Q9_X")
