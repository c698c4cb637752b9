"""Where several voices and several expressions tell the same, one of them holds, whatever comes first."""

from itertools import permutations

import pytest

from unslow.fleet.asking import fold
from unslow.fleet.prometheus.answers import Answered, Series
from unslow.fleet.queries import MARK, Part


class Thing:
    def __init__(self):
        self.raw = {}


PARTS = {"new": Part("gap", "vllm", 0, "the new name"), "old": Part("gap", "vllm", 1, "the old name")}


def told(mark, replica, value):
    return Series({MARK: mark, "instance": "a:1", "replica": replica}, value)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_first_voice_speaks_before_another_and_its_first_expression_before_the_rest(order):
    said = [told("new", "a", 1.0), told("old", "a", 2.0), told("new", "b", 3.0), told("old", "b", 4.0)]
    thing = Thing()
    known = {"instance\0replica\0a:1\0a": (thing, 0), "instance\0replica\0a:1\0b": (thing, 1)}
    fold(Answered([Series(dict(said[n].labels), said[n].value) for n in order]), PARTS, known)
    assert thing.raw == {"gap": (0, 1.0, "the new name")}


def test_another_voice_is_heard_where_the_first_is_silent():
    thing = Thing()
    known = {"instance\0replica\0a:1\0a": (thing, 0), "instance\0replica\0a:1\0b": (thing, 1)}
    fold(Answered([told("old", "a", 2.0), told("new", "b", 3.0)]), PARTS, known)
    assert thing.raw["gap"][1:] == (2.0, "the old name"), "even by its second expression"
    fold(Answered([told("new", "b", 3.0)]), PARTS, known, before="before.")
    assert thing.raw["before.gap"][1] == 3.0


def test_what_nobody_has_is_looked_for_once():
    asked = []
    known = {}

    def find(labels, part):
        asked.append((labels["instance"], part.quantity))

    fold(Answered([told("new", "a", 1.0), told("new", "a", 1.0), told("no such mark", "a", 1.0)]), PARTS, known, find)
    assert asked == [("a:1", "gap")]
    assert list(known.values()) == [None]


@pytest.mark.parametrize(
    ("value", "kept"),
    [(0.0, 0.0), (3.0, 3.0), (1e12, 1e12), (5e-324, 0.0), (-1.0, None), (1e308, None), (2.0**63 - 16, None)],
)
def test_what_no_thing_can_have_is_no_reading(value, kept):
    thing = Thing()
    fold(Answered([told("new", "a", value)]), PARTS, {"instance\0replica\0a:1\0a": (thing, 0)})
    assert thing.raw.get("gap", (0, None, ""))[1] == kept
