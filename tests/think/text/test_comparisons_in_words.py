import pytest

from unslow.facts.account import Account, Comparison, Topic
from unslow.facts.values import Known
from unslow.think.text.comparisons import MOST_COMPARISONS
from unslow.think.text.prose import read_words


def account(*lines: str) -> Account:
    return read_words(lines, "report.txt").subject.account


def compared(*lines: str) -> tuple[Comparison, ...]:
    return account(*lines).comparisons.value_or(())


def test_pair_of_speeds_takes_the_topic_of_its_line():
    (one,) = compared("60-70 -> 12-18 tok/s after the update")
    assert (one.slow, one.fast, one.differs) == (15, 65, (Topic.VERSION,))
    assert (one.text, one.source) == ("60-70 -> 12-18 tok/s after the update", "report.txt:1")


def test_pair_without_a_topic_takes_that_of_the_complaint():
    (one,) = compared("Since the update it is slow.", "about 7 tok/s, was 31")
    assert one.differs == (Topic.VERSION,)


def test_labelled_speeds_in_several_lines_are_compared():
    found = compared("3090 alone: 81 t/s", "both cards: 45 t/s")
    assert [(one.slow, one.fast) for one in found] == [(45, 81)]
    assert Topic.GPU_COUNT in found[0].differs


def test_prefill_and_decode_of_one_run_are_not_a_comparison():
    assert compared("prompt eval is 120 t/s and generation 8.3 t/s") == ()
    assert compared("prompt: 120 t/s", "generation: 8.3 t/s") == ()


def test_similar_repeated_speeds_are_not_a_comparison():
    assert compared("first run: 40 t/s", "second run: 42 t/s") == ()


def test_factor_alone_is_a_relative_comparison():
    (one,) = compared("it is 3x slower with -fa off")
    assert (one.slow, one.fast, one.relative, one.differs) == (1, 3, True, (Topic.FLASH_ATTENTION,))
    assert account("it is 3x slower").slowdown.need() == 3


def test_complaint_names_its_phase():
    assert account("Generation is slow").slow_metric.need() == "decode"
    assert account("prompt processing got slower").slow_metric.need() == "prefill"
    assert not isinstance(account("it is slow").slow_metric, Known)
    assert not isinstance(account("generation works").slow_metric, Known)


def test_current_speed_is_the_slower_one():
    run = read_words(["31 tok/s before, now I get 7 tok/s, was 31"], "r").subject.run
    assert run.decode_tokens_per_s.need() == 7
    run = read_words(["prompt eval is 120 t/s", "generation 8.3 t/s"], "r").subject.run
    assert (run.prefill_tokens_per_s.need(), run.decode_tokens_per_s.need()) == (120, pytest.approx(8.3))


def test_number_of_comparisons_is_limited():
    words = ["".join(chr(97 + int(digit)) for digit in str(n)) for n in range(200)]
    lines = [f"{word}: 7 tok/s -> 31 tok/s after updating" for word in words]
    assert len(compared(*lines)) == MOST_COMPARISONS
