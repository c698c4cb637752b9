"""Queries: what they mean, and what is told of those that mean nothing."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.facts.errors import UserError
from unslow.page.server.parameters import LONGEST_VALUE, MOST_VALUES, Parameter, flags

KNOWN = (
    Parameter("model", "a name", needed=True),
    Parameter("device", "one or more", "list", "devices"),
    Parameter("share", "a part", "number"),
    Parameter("explain", "more", "switch"),
    Parameter("context", "tokens", "count"),
)


def test_values_become_what_they_are_meant_for():
    query = {"model": ["qwen3-8b"], "device": ["A", "B"], "share": ["0.5"], "explain": ["true"], "context": ["128k"]}
    assert flags(KNOWN, query) == {
        "model": "qwen3-8b",
        "devices": ["A", "B"],
        "share": 0.5,
        "explain": True,
        "context": "128k",
    }


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({}, "model is missing"),
        ({"model": ["x"], "colour": ["red"]}, "no parameter 'colour'"),
        ({"model": ["x", "y"]}, "given 2 times"),
        ({"model": ["x"], "device": ["d"] * (MOST_VALUES + 1)}, "times"),
        ({"model": ["x" * (LONGEST_VALUE + 1)]}, "no usual text"),
        ({"model": ["a\0b"]}, "no usual text"),
        ({"model": ["x"], "share": ["much"]}, "is no number"),
        ({"model": ["x"], "share": ["nan"]}, "makes no sense"),
        ({"model": ["x"], "share": ["1e300"]}, "makes no sense"),
        ({"model": ["x"], "explain": ["perhaps"]}, "neither true nor false"),
    ],
)
def test_nonsense_is_named(query, said):
    with pytest.raises(UserError, match=said) as found:
        flags(KNOWN, query)
    assert found.value.hint


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from(["model", "share", "device", "explain", "colour"]),
        st.lists(st.text(max_size=8), min_size=1, max_size=3),
        max_size=4,
    )
)
def test_any_query_is_understood_or_refused(query):
    understood = None
    with suppress(UserError):
        understood = flags(KNOWN, query)
    assert understood is None or "model" in understood
