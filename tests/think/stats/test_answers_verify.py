"""Answers before and after a change: the same, noise, or broken."""

import random

import pytest

from unslow.facts.verification import Side, TokenScores
from unslow.think.stats.answers import (
    ALLOWED,
    Agreement,
    agreement_of,
    is_far_below,
    is_garbage,
    judge_answers,
    perplexities,
    rarer_alike,
    reads_alike,
)
from unslow.think.stats.verification_report import IntervalShown

PROSE = "The river rose slowly through the night, and by morning the lower fields were under water again."
ANSWERS = tuple(f"Answer {n} is about {word}." for n, word in enumerate("abcdefghijkl"))


def scored(shift: float = 0.0, noise: float = 0.0, other: float = 0.0, seed: int = 1, places: int = 200) -> TokenScores:
    """The same text each time; `shift` and `noise` are what a change does to it, `other` the share of other choices."""
    text, dice = random.Random(0), random.Random(seed)
    base = [-text.expovariate(0.5) for _ in range(places)]
    return TokenScores(
        tokens=tuple(range(1000, 1900)),
        at=tuple(range(16, 16 + 4 * places, 4)),
        log_probabilities=tuple(min(0.0, value - shift + dice.gauss(0, noise)) for value in base),
        likeliest=tuple(9 if dice.random() < other else 5 for _ in base),
    )


def side(
    answers: tuple[str, ...] = ANSWERS, again: tuple[str, ...] | None = None, scores: TokenScores | None = None
) -> Side:
    return Side(what="x", answers=answers, again=answers if again is None else again, scored=scores)


def test_agreement_counts_words_until_they_differ():
    found = agreement_of(["one two three four", "a b"], ["one two other four", "c b"])
    assert found == Agreement(2, 1, pytest.approx((0.5 + 0.0) / 2))
    assert agreement_of([], []) is None
    assert agreement_of([""], [""]) == Agreement(1, 1, 1.0)


def test_fisher_test_matches_published_tables():
    # 1 of 9 against 9 of 9: C(9,1) C(9,9) / C(18,10)
    assert rarer_alike(Agreement(9, 1, 0), Agreement(9, 9, 1)) == pytest.approx(9 / 43758)
    assert rarer_alike(Agreement(9, 9, 1), Agreement(9, 9, 1)) == pytest.approx(1.0)


def test_far_below_needs_a_large_and_significant_difference():
    usual = Agreement(12, 12, 1.0)
    assert is_far_below(Agreement(12, 3, 0.1), usual)
    assert not is_far_below(Agreement(12, 8, 0.3), usual)
    assert not is_far_below(Agreement(3, 1, 0.3), Agreement(3, 3, 1.0))


@pytest.mark.parametrize("answer", ["", " \n", "!" * 40, "GGGGGGGGGGGGGGGGGGGG", "the cat " * 20])
def test_empty_and_repetitive_answers_are_garbage(answer):
    assert is_garbage(answer)


@pytest.mark.parametrize(
    "answer", [PROSE, "Paris.", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13", "def f(x):\n return x"]
)
def test_normal_answers_are_not_garbage(answer):
    assert not is_garbage(answer)


def test_occasional_loops_are_not_more_garbage():
    loop = "the cat " * 20
    few, more, many = ((PROSE,) * (12 - loops) + (loop,) * loops for loops in (2, 3, 4))
    assert judge_answers(side(few), side(more)).verdict == "kept"
    found = judge_answers(side((PROSE,) * 12), side(many))
    assert (found.verdict, found.garbage_before, found.garbage_after) == ("changed", 0, 4)
    assert "repeat endlessly" in found.because


def test_perplexity_of_the_same_model_is_unchanged():
    found = perplexities(scored(), scored(), ALLOWED)
    assert found is not None
    assert found.places == 200
    assert found.increase == IntervalShown(low=0, mid=0, high=0)
    assert found.same_choice == 1
    assert found.before == found.after > 1


def test_paired_perplexity_detects_2_percent():
    found = perplexities(scored(), scored(shift=0.02, noise=0.03), ALLOWED)
    assert found is not None
    assert 0.005 < found.increase.low < 0.02 < found.increase.high < 0.035


def test_too_few_positions_give_no_perplexity():
    assert perplexities(scored(), scored(places=10), ALLOWED) is None


def test_different_tokenization_is_a_changed_model():
    other = TokenScores(tokens=(1, 2, 3), at=(1,), log_probabilities=(-1.0,), likeliest=(2,))
    assert not reads_alike(scored(), other)
    found = judge_answers(side(scores=scored()), side(scores=other))
    assert found.verdict == "changed"
    assert "different tokens" in found.because
    assert found.perplexity is None


def test_same_answers_are_kept():
    found = judge_answers(side(scores=scored()), side(scores=scored(shift=0.001, noise=0.01)))
    assert found.verdict == "kept"
    assert "is ruled out" in found.because
    assert found.begin_alike == found.together == found.together_before == 1.0


def test_worse_perplexity_is_changed_even_with_the_same_beginnings(wording):
    found = judge_answers(side(scores=scored()), side(scores=scored(shift=0.3, noise=0.3)))
    assert found.verdict == "changed"
    wording(found.because, tells="5%")
    assert found.perplexity is not None
    assert found.perplexity.increase.low > 0.05


def test_allowed_perplexity_rise_is_kept():
    found = judge_answers(side(scores=scored()), side(scores=scored(shift=0.3, noise=0.3)), 1.0)
    assert found.verdict == "kept"


def test_insignificant_perplexity_rise_gives_cannot_tell(wording):
    found = judge_answers(side(scores=scored()), side(scores=scored(shift=0.04, noise=0.5)))
    assert found.verdict == "cannot_tell"
    wording(found.because)


def test_different_token_choices_are_a_changed_model(wording):
    found = judge_answers(side(scores=scored()), side(scores=scored(shift=-0.2, other=0.6)))
    assert found.verdict == "changed"
    wording(found.because)


def test_first_words_decide_without_probabilities(wording):
    parted = tuple(f"Other {answer}" for answer in ANSWERS)
    assert judge_answers(side(), side()).verdict == "kept"
    found = judge_answers(side(), side(parted))
    assert found.verdict == "changed"
    wording(found.because, tells="0 of 12")


def test_nondeterministic_baseline_excuses_differences():
    parted = tuple(f"Other {answer}" for answer in ANSWERS)
    assert judge_answers(side(again=parted), side(parted)).verdict == "kept"


def test_garbage_answers_are_changed(wording):
    found = judge_answers(side(), side(("!" * 50,) * 12))
    assert found.verdict == "changed"
    wording(found.because, tells="12 of 12")
    assert (found.garbage_before, found.garbage_after) == (0, 12)


def test_no_answers_give_cannot_tell():
    assert judge_answers(side(()), side(())).verdict == "cannot_tell"


def test_same_beginning_with_other_endings_gives_cannot_tell(wording):
    other = tuple(f"Answer to it: and then something else entirely comes after {n} or so." for n in range(12))
    found = judge_answers(side(), side(other))
    assert found.verdict == "cannot_tell"
    assert found.begin_alike == 1.0
    wording(found.because, tells="100%")
