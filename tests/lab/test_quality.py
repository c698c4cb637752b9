"""The quality lab reads llama-perplexity's figures, and writes its own beside the published ones."""

import msgspec
import pytest
from lab.quality import MEASURED, Measured, catalog_table, corpus, parse_divergence, published_loss, read_rows, table

from unslow.catalog.quality import Table, tables

PRINTED = """
chunk             PPL       ln(PPL(Q)/PPL(base))      KL Divergence         Δp RMS        Same top p
   1   21.8869 ± 2.1319       0.00479 ± 0.00100   0.00347 ± 0.00010   1.500 ± 0.100 %   97.500 ± 0.500 %

====== Perplexity statistics ======
Mean PPL(Q)                   :  18.553626 ±   0.921000
Mean PPL(base)                :  18.465220 ±   0.915000
Cor(ln(PPL(Q)), ln(PPL(base))):  99.95%
Mean ln(PPL(Q)/PPL(base))     :   0.004776 ±   0.002967

====== KL divergence statistics ======
Mean    KLD:   0.003467 ±   0.000112
Maximum KLD:   0.402139
99.9%   KLD:   0.039065

====== Token probability statistics ======
Mean    Δp: -0.012 ± 0.040 %
Same top p: 96.420 ± 0.335 %
"""


def row(setting: str, rise: float, by: str = "llama-perplexity") -> Measured:
    return Measured(
        setting=setting, by=by, model="Model 1.5B", quant="Q4_K_M", architecture="qwen2", parameters=1_777_088_000,
        program="b10488", tokens=3072, context=2048, text="own", ppl_before=18.0, ppl=18.0 * (1 + rise), kl=0.01,
        increase=(rise - 0.002, rise, rise + 0.002), same_choice=0.9, kl_999=0.1, together=0.5,
    )  # fmt: skip


def test_figures_of_llama_perplexity_are_read_with_their_errors():
    found = parse_divergence(PRINTED)
    assert found["ppl"] == (18.553626, 0.921)
    assert found["log_ratio"] == (0.004776, 0.002967)
    assert (found["kl"][0], found["kl_999"][0]) == (0.003467, 0.039065)
    assert found["same_choice"] == (96.42, 0.335)


def test_output_without_figures_ends_with_what_it_said():
    with pytest.raises(SystemExit, match="out of memory"):
        parse_divergence("out of memory")


def test_table_has_the_published_figure_beside_the_measured_one():
    rows = [
        row("cache q8_0/q8_0", 0.0005),
        row("cache q4_0/q4_0", 290.0),
        row("Q2_K", 0.02),
        row("Q2_K", 0.3, "unslow"),
    ]
    lines = table(rows).splitlines()
    assert lines[1].endswith("yes")
    assert "much" in lines[2]
    assert "×291" in lines[2]
    assert lines[2].endswith("yes")
    assert f"{published_loss(rows[2]).increase:+.2%}" in lines[3]
    assert lines[3].endswith("NO")
    assert table([]) == "not measured yet"


def test_catalog_file_of_the_caches_can_be_read():
    text = catalog_table([row("Q2_K", 0.02), row("cache q4_0/f16", 0.02), row("cache f16/q8_0", 0.001)], "2026-11-18")
    found = msgspec.toml.decode(text, type=Table)
    assert (found.own, found.parameters, found.ppl_full) == (True, 1_500_000_000, 18.0)
    assert [(r.keys, r.values, r.rotated) for r in found.rows] == [("q4_0", "", True), ("", "q8_0", True)]
    assert found.rows[0].error == pytest.approx(0.001, rel=0.05)


def test_shipped_table_is_what_was_measured():
    shipped = tables()["cache_qwen25_coder_15b"]
    assert msgspec.toml.decode(catalog_table(read_rows(MEASURED), shipped.date), type=Table) == shipped


def test_corpus_is_prose_and_code():
    assert "def " in corpus()
    assert "# " in corpus()
