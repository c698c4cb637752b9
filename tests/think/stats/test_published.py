"""Published figures of a change beside the perplexity that was measured of it."""

import random

import msgspec
import pytest

from unslow.facts.verification import Side, TokenScores
from unslow.think.plan.quality import quality_cost
from unslow.think.stats.answers import judge_answers
from unslow.think.stats.verification_report import PublishedShown

LLAMA = {"model.architecture": "llama", "model.parameters": "8030261248", "model.quant": "Q4_K_M"}
ANSWERS = tuple(f"Answer {n} is fine." for n in range(12))
NOISE = 0.01


def side(shift: float = 0.0, version: str = "b10000", **settings: str) -> Side:
    """A llama-server with these settings, whose perplexity is larger by `shift` and a little noise."""
    text, dice = random.Random(0), random.Random(round(shift * 1000))
    base = [-text.expovariate(0.5) - 0.2 for _ in range(200)]
    scored = TokenScores(
        tokens=tuple(range(900)),
        at=tuple(range(16, 816, 4)),
        log_probabilities=tuple(value - shift + dice.gauss(0, NOISE) for value in base),
        likeliest=(5,) * 200,
    )
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return Side(
        what="x", runtime="llama.cpp", runtime_version=version, settings=LLAMA | named, scored=scored, answers=ANSWERS,
        again=ANSWERS,
    )  # fmt: skip


def cached(kind: str, shift: float, **others: str) -> Side:
    return side(shift, runtime__kv_type_k=kind, runtime__kv_type_v=kind, **others)


def published(before: Side, after: Side) -> PublishedShown:
    found = judge_answers(before, after).published
    assert found is not None
    return found


def test_q8_0_cache_that_costs_nothing_agrees_with_its_figure(wording):
    found = published(side(), cached("q8_0", 0.0))
    plans = quality_cost("F16", "q8_0", "q8_0", 8_030_261_248, "llama", rotated=True)
    assert found.increase == pytest.approx(plans.perplexity_increase)
    assert found.agrees
    assert "https://" in found.sources[0]
    wording(found.because, tells="agrees with")


def test_q8_0_cache_that_costs_much_disagrees(wording):
    found = published(side(), cached("q8_0", 0.2))
    assert found.agrees is False
    wording(found.because, tells="it is more")


def test_cache_that_costs_less_than_published_disagrees():
    found = published(side(), cached("q4_0", 0.0))
    assert found.increase == pytest.approx(7.3833 / 7.2256 - 1)
    assert found.agrees is False
    assert "it is less" in found.because


def test_figures_of_old_builds_are_a_lower_bound():
    found = published(side(version="b5000"), cached("q4_0", 0.3, version="b5000"))
    assert "at least" in found.because
    assert found.agrees


def test_coarser_quant_is_the_ratio_of_both_figures():
    found = published(side(), side(0.06, model__quant="Q3_K_M"))
    assert found.increase == pytest.approx((6.886 / 6.4) - 1, abs=0.02)
    assert found.agrees is not None
    assert "Q4_K_M" in found.because
    assert "Q3_K_M" in found.because


@pytest.mark.parametrize(("shift", "agrees"), [(0.0, False), (0.5, True)])
def test_models_known_to_lose_much_are_compared_without_a_figure(shift, agrees, wording):
    qwen = {"model__architecture": "qwen2", "model__parameters": "7615616512"}
    found = published(side(**qwen), cached("q4_0", shift, **qwen))
    assert (found.increase, found.agrees) == (None, agrees)
    wording(found.because, tells="garbage")


def test_nothing_is_published_about_other_changes():
    assert judge_answers(side(), side(runtime__threads="2")).published is None
    assert judge_answers(side(), side(model__parameters="3212749888", model__quant="Q8_0")).published is None
    assert judge_answers(side(), side(model__architecture="qwen3", model__quant="Q8_0")).published is None
    assert judge_answers(msgspec.structs.replace(side(), settings={}), side()).published is None


def test_type_without_a_figure_is_not_judged(wording):
    found = published(side(), cached("iq4_nl", 0.0))
    assert (found.increase, found.agrees) == (None, None)
    wording(found.because)
