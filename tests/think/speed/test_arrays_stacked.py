from typing import Any, NamedTuple

import numpy as np
import pytest

from unslow.think.speed.arrays import outline, stacked


class Pair(NamedTuple):
    number: Any
    word: str = "same"
    more: Any = None


def test_numbers_become_arrays_and_words_stay() -> None:
    found = stacked([Pair(1), Pair(2.5)], np.array([1, 0, 1]))
    assert found.number.tolist() == [2.5, 1.0, 2.5]
    assert found.word == "same"
    assert found.more is None


def test_a_number_that_all_share_stays_a_number() -> None:
    assert stacked([Pair(3), Pair(3.0)], np.array([0, 1])).number == 3.0


def test_a_name_that_only_some_have_counts_as_nothing_for_the_others() -> None:
    found = stacked([Pair(1, more={"a": 1.0}), Pair(1, more={"b": 2.0})], np.array([0, 1]))
    assert {name: column.tolist() for name, column in found.more.items()} == {"a": [1.0, 0.0], "b": [0.0, 2.0]}


def test_the_outline_tells_what_can_be_stacked() -> None:
    assert outline(Pair(1, more={"a": 1.0})) == outline(Pair(7, more={"b": 1.0}))
    assert outline(Pair(1, more={})) != outline(Pair(1, more={"a": 1.0}))
    assert outline(Pair(1, more=None)) != outline(Pair(1, more=Pair(1)))


def test_what_holds_no_numbers_is_a_mistake() -> None:
    with pytest.raises(TypeError):
        stacked([object()], np.array([0]))
