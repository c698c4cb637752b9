"""Figures of this project's own: they come before published ones for that model alone, and are compared with them."""

import pytest

from unslow.catalog.quality import tables
from unslow.think.plan.quality import Bounds, Loss, agreement, cost_of_cache, quality_cost, shown_quality

OWN = tables()["cache_qwen25_coder_15b"]
SIZE, ARCHITECTURE = 1_777_088_000, "qwen2"  # with its output matrix twice, as the file has it


def own_row(keys, values):
    return next(row for row in OWN.rows if (row.keys, row.values) == (keys, values))


def test_own_figure_counts_for_its_model(wording):
    row = own_row("q8_0", "q8_0")
    loss = cost_of_cache("q8_0", "q8_0", SIZE, ARCHITECTURE, rotated=True)
    assert loss.increase == pytest.approx(max(0.0, row.ppl / OWN.ppl_full - 1))
    assert loss.kl == row.kl
    assert loss.published == cost_of_cache("q8_0", "q8_0", 3 * SIZE, "llama", rotated=True)
    assert loss.sources[0] == OWN.source
    wording(loss.words, tells="measured of")


def test_own_figure_of_low_bit_keys_replaces_the_warning(wording):
    loss = cost_of_cache("q4_0", "q4_0", SIZE, ARCHITECTURE, rotated=True)
    assert loss.published is not None
    assert loss.published.increase is None
    assert loss.published.much
    assert loss.increase == pytest.approx(own_row("q4_0", "q4_0").ppl / OWN.ppl_full - 1)
    wording(loss.words, tells="garbage")


@pytest.mark.parametrize(("parameters", "architecture"), [(7_600_000_000, "qwen2"), (SIZE, "llama"), (0, "qwen2")])
def test_other_models_keep_the_published_figures(parameters, architecture):
    loss = cost_of_cache("q8_0", "q8_0", parameters, architecture, rotated=True)
    assert loss.published is None
    assert OWN.source not in loss.sources
    assert "measured of" not in loss.words


def test_unrotated_cache_keeps_the_published_figure_and_names_the_own_one(wording):
    loss = cost_of_cache("q4_0", "q4_0", SIZE, ARCHITECTURE)
    assert loss.increase is None
    assert loss.published is None
    assert OWN.source in loss.sources
    wording(loss.words, tells="b8624")


def test_plan_shows_both_figures():
    shown = shown_quality(quality_cost("Q4_K_M", "q8_0", "q8_0", SIZE, ARCHITECTURE, rotated=True))
    assert shown.is_measured
    others = shown_quality(quality_cost("Q4_K_M", "q8_0", "q8_0", SIZE, "llama", rotated=True))
    assert not others.is_measured
    assert others.published_increase == others.perplexity_increase
    assert shown.published_increase is not None


@pytest.mark.parametrize(
    ("bounds", "published", "agrees"),
    [
        (Bounds(0.001, 0.002, 0.003), Loss(0.002, None), True),
        (Bounds(0.001, 0.002, 0.003), Loss(0.0035, None), True),  # less than a tenth of a percent apart
        (Bounds(0.001, 0.002, 0.003), Loss(0.02, None), False),
        (Bounds(0.1, 0.2, 0.3), Loss(0.02, None), False),
        (Bounds(0.1, 0.2, 0.3), Loss(0.02, None, at_least=True), True),
        (Bounds(0.1, 0.2, 0.3), Loss(0.4, None, at_least=True), False),
        (Bounds(0.001, 0.002, 0.003), Loss(None, None), None),
        (Bounds(0.001, 0.002, 0.003), Loss(None, None, much=True), False),
        (Bounds(0.1, 0.2, 0.3), Loss(None, None, much=True), True),
        (Bounds(0.01, 0.05, 0.3), Loss(None, None, much=True), None),
    ],
)
def test_agreement_of_a_measurement_with_a_published_figure(bounds, published, agrees):
    assert agreement(bounds, published)[0] is agrees
