import pytest

from unslow.look.requests import KEPT_CHARS, PartialAnswer, thinking_tokens


def heard(*pieces: str) -> PartialAnswer:
    result = PartialAnswer()
    for number, piece in enumerate(pieces):
        result.piece(number / 10, piece)
    return result


@pytest.mark.parametrize(
    ("pieces", "thoughts"),
    [
        (["a", "b"], 0),
        (["<think>", "hm", "hm", "</think>", "a"], 4),
        (["<", "think", ">", "hm", "</", "think", ">", "a", "b"], 5),
        (["<think>hm</think>", "a"], 1),
        (["[THINK]", "hm", "[/THINK]", "a"], 3),
        (["<think>", "never", "ends"], 3),
        (["a < b", "[1]", "</think>", "b"], 0),
        (["<think>", "</think>", "a", "<think>", "hm", "</think>", "b"], 5),
    ],
)
def test_thinking_between_tags_is_counted(pieces, thoughts):
    assert heard(*pieces).thoughts == thoughts


def test_only_the_start_of_the_text_is_kept_but_every_arrival():
    long = heard(*["x" * 1000] * 50)
    assert len(long.text) == KEPT_CHARS
    assert len(long.arrivals) == 50


def test_chunks_without_text_count_as_arrivals():
    result = heard("a")
    result.piece(0.5, None)
    result.add_thought(0.6)
    assert (result.arrivals, result.text, result.thoughts) == ([0.0, 0.5, 0.6], "a", 1)


@pytest.mark.parametrize(
    ("pieces", "generated", "counted", "shown", "tokens"),
    [
        (["a", "b"], 2, None, True, 0),
        (["ab"], 2, None, True, 0),
        (["ab"], 2, None, False, None),
        (["<think>", "hm", "</think>", "a"], 4, None, True, 3),
        (["<think>hm", "</think>", "a"], 4, None, True, None),
        (["a"], 4, 3, False, 3),
        (["a"], 4, 99, False, 4),
    ],
)
def test_thinking_tokens_are_counted_or_unknown(pieces, generated, counted, shown, tokens):
    assert thinking_tokens(heard(*pieces), generated, counted, shown=shown) == tokens
