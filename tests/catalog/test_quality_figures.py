"""Published quality figures are complete and sourced, and fewer bits of a family are never better."""

from itertools import pairwise, product

import pytest

from unslow.catalog.architectures import layouts
from unslow.catalog.quality import Figure, cache_exceptions, figures, tables
from unslow.catalog.quants import mixes, quants
from unslow.catalog.weight_parts import packings

FAMILIES = [
    ("Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q4_K_M", "Q4_K_S", "Q3_K_L", "Q3_K_M", "Q3_K_S"),
    ("Q3_K_M", "Q2_K"),
    ("Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0"),
    (
        "IQ4_NL",
        "IQ4_XS",
        "IQ3_M",
        "IQ3_S",
        "IQ3_XS",
        "IQ3_XXS",
        "IQ2_M",
        "IQ2_S",
        "IQ2_XS",
        "IQ2_XXS",
        "IQ1_M",
        "IQ1_S",
    ),
    ("q8_0", "q5_1", "q5_0", "q4_1", "iq4_nl", "q4_0"),
]
NOT_CACHE_TYPES_OF_GGML = {"fp8"}
WITHOUT_A_LAYOUT = {"qwen"}


def test_every_table_has_a_source_a_date_and_rows():
    for table in tables().values():
        assert "://" in table.source or table.source.startswith("lab/" if table.own else "arXiv ")
        assert table.date[:2] == "20"
        assert table.rows
        assert bool(table.why_only) == bool(table.only_for)


def test_every_perplexity_has_a_baseline():
    for table, row in figures():
        assert row.ppl is None or (table.ppl_full and row.increase is None)
        assert row.ppl is not None or row.increase is not None or row.kl is not None


def test_every_row_names_a_known_quant_or_cache_type():
    for row in (figure.row for figure in figures()):
        assert bool(row.quant) != bool(row.keys or row.values)
        if row.quant:
            assert row.quant in mixes() or row.quant in packings()
        else:
            assert {t.upper() for t in (row.keys, row.values) if t not in NOT_CACHE_TYPES_OF_GGML} <= {"", *quants()}


def test_quality_figures_are_plausible():
    for figure in figures():
        most, most_kl = (1000, 12) if figure.table.own else (20, 3)  # a broken model guesses
        assert figure.increase is None or 0 <= figure.increase < most
        assert figure.kl is None or 0 < figure.kl < most_kl
        assert figure.row.kl_999 is None or figure.kl < figure.row.kl_999


def test_a_perplexity_below_the_baseline_counts_as_zero_increase():
    table = tables()["cache_qwen35_35b"]
    q8_0 = next(r for r in table.rows if r.keys == "q8_0")
    assert q8_0.ppl < table.ppl_full
    assert Figure(table, q8_0).increase == 0


@pytest.mark.parametrize("part", ["weights", "keys", "values", "cache"])
def test_weights_keys_values_and_cache_have_measurements(part):
    assert any(figure.part == part for figure in figures())


def rows_in_order(name, family, matrix, rotated):
    rows = {r.quant or r.keys: r for r in tables()[name].rows if (r.matrix, r.rotated) == (matrix, rotated)}
    return [(kind, Figure(tables()[name], rows[kind])) for kind in family if kind in rows]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family[-1])
def test_fewer_bits_of_a_family_cost_more(family):
    compared = 0
    for name, matrix, rotated in product(tables(), (True, False), (True, False)):
        for (finer, one), (coarser, other) in pairwise(rows_in_order(name, family, matrix, rotated)):
            in_words = f"{finer} and {coarser} of {name}"
            assert one.kl is None or other.kl is None or one.kl < other.kl, in_words
            if one.increase is not None:
                assert one.increase < other.increase, in_words
            compared += 1
    assert compared


@pytest.mark.parametrize("name", cache_exceptions())
def test_every_cache_warning_has_a_source_and_known_architectures(name):
    warning = cache_exceptions()[name]
    assert "https://" in warning.source
    assert set(warning.architectures) - WITHOUT_A_LAYOUT <= set(layouts())
    assert {t.upper() for t in warning.kl} <= set(quants())
    assert all(str(kl) in warning.words for t, kl in warning.kl.items() if t == "q8_0")
