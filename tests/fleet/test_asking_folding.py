"""Several exporters or expressions report one reading: the first in rank wins, in any order of arrival."""

from itertools import permutations

import pytest

from unslow.fleet.asking import fold
from unslow.fleet.prometheus.answers import QueryAnswer, Series
from unslow.fleet.queries import MARK, Part


class Thing:
    def __init__(self):
        self.raw = {}


PARTS = {"new": Part("gap", "vllm", 0, "the new name"), "old": Part("gap", "vllm", 1, "the old name")}


def told(mark, replica, value):
    return Series({MARK: mark, "instance": "a:1", "replica": replica}, value)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_first_exporter_and_first_expression_win(order):
    said = [told("new", "a", 1.0), told("old", "a", 2.0), told("new", "b", 3.0), told("old", "b", 4.0)]
    thing = Thing()
    known = {"instance\0replica\0a:1\0a": (thing, 0), "instance\0replica\0a:1\0b": (thing, 1)}
    fold(QueryAnswer([Series(dict(said[n].labels), said[n].value) for n in order]), PARTS, known)
    assert thing.raw == {"gap": (0, 1.0, "the new name")}


def test_second_exporter_fills_missing_readings():
    thing = Thing()
    known = {"instance\0replica\0a:1\0a": (thing, 0), "instance\0replica\0a:1\0b": (thing, 1)}
    fold(QueryAnswer([told("old", "a", 2.0), told("new", "b", 3.0)]), PARTS, known)
    assert thing.raw["gap"][1:] == (2.0, "the old name"), "even by its second expression"
    fold(QueryAnswer([told("new", "b", 3.0)]), PARTS, known, before="before.")
    assert thing.raw["before.gap"][1] == 3.0


def test_unknown_labels_are_looked_up_once():
    asked = []
    known = {}

    def find(labels, part):
        asked.append((labels["instance"], part.quantity))

    fold(
        QueryAnswer([told("new", "a", 1.0), told("new", "a", 1.0), told("no such mark", "a", 1.0)]), PARTS, known, find
    )
    assert asked == [("a:1", "gap")]
    assert list(known.values()) == [None]


@pytest.mark.parametrize(
    ("value", "kept"),
    [(0.0, 0.0), (3.0, 3.0), (1e12, 1e12), (5e-324, 0.0), (-1.0, None), (1e308, None), (2.0**63 - 16, None)],
)
def test_impossible_values_are_not_readings(value, kept):
    thing = Thing()
    fold(QueryAnswer([told("new", "a", value)]), PARTS, {"instance\0replica\0a:1\0a": (thing, 0)})
    assert thing.raw.get("gap", (0, None, ""))[1] == kept
