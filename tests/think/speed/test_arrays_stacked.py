from typing import Any, NamedTuple

import numpy as np
import pytest

from unslow.think.speed.arrays import outline, stack_values


class Pair(NamedTuple):
    number: Any
    word: str = "same"
    more: Any = None


def test_numbers_become_arrays_and_words_stay() -> None:
    found = stack_values([Pair(1), Pair(2.5)], np.array([1, 0, 1]))
    assert found.number.tolist() == [2.5, 1.0, 2.5]
    assert found.word == "same"
    assert found.more is None


def test_shared_number_stays_a_number() -> None:
    assert stack_values([Pair(3), Pair(3.0)], np.array([0, 1])).number == 3.0


def test_key_that_is_missing_in_some_is_zero() -> None:
    found = stack_values([Pair(1, more={"a": 1.0}), Pair(1, more={"b": 2.0})], np.array([0, 1]))
    assert {name: column.tolist() for name, column in found.more.items()} == {"a": [1.0, 0.0], "b": [0.0, 2.0]}


def test_outline_decides_what_can_be_stacked() -> None:
    assert outline(Pair(1, more={"a": 1.0})) == outline(Pair(7, more={"b": 1.0}))
    assert outline(Pair(1, more={})) != outline(Pair(1, more={"a": 1.0}))
    assert outline(Pair(1, more=None)) != outline(Pair(1, more=Pair(1)))


def test_object_without_numbers_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        stack_values([object()], np.array([0]))
