"""Facts from foreign JSON."""

import pytest

from unslow.facts.values import Known, Unknown
from unslow.look.server_answers import (
    LONGEST_TEXT,
    amount_fact,
    count_fact,
    objects_at,
    text_fact,
    truth_fact,
    value_at,
    word_at,
)

DATA = {"a": {"b": [{"c": 3}, "x"]}, "t": "text", "f": 1.5, "yes": True, "long": "x" * 10_000}


def test_a_json_path_gives_its_value_or_none():
    assert value_at(DATA, "a", "b", 0, "c") == 3
    assert value_at(DATA, "a", "b", 9) is None
    assert value_at(DATA, "a", 0) is None
    assert value_at(None, "a") is None
    assert objects_at(DATA, "a", "b") == [{"c": 3}]
    assert objects_at(DATA, "t") == []


def test_json_values_of_the_right_type_are_known():
    assert count_fact(DATA, "s", "a", "b", 0, "c") == Known(3, "reported", "s")
    assert amount_fact(DATA, "s", "f").value == 1.5
    assert truth_fact(DATA, "s", "yes").value is True
    assert text_fact(DATA, "s", "t").value == "text"
    assert len(word_at(DATA, "long")) == LONGEST_TEXT


@pytest.mark.parametrize("value", [True, -1, 1.5, "3", None, [], {}, 2**70])
def test_an_invalid_count_is_unknown(value):
    assert isinstance(count_fact({"n": value}, "s", "n"), Unknown)


@pytest.mark.parametrize("value", [True, -1.0, float("nan"), float("inf"), "3", None, [], 1e300, 2**2000])
def test_an_invalid_amount_is_unknown(value):
    assert isinstance(amount_fact({"n": value}, "s", "n"), Unknown)


def test_the_reason_names_the_missing_field(wording):
    wording(truth_fact({"n": 1}, "/api", "x", "n").why, tells=("/api", "n"))
    assert isinstance(text_fact({"n": ""}, "s", "n"), Unknown)
