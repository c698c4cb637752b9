"""Query parameters: conversion and errors."""

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


def test_query_values_are_converted_to_their_kinds():
    query = {"model": ["qwen3-8b"], "device": ["A", "B"], "share": ["0.5"], "explain": ["true"], "context": ["128k"]}
    assert flags(KNOWN, query) == {
        "model": "qwen3-8b",
        "devices": ["A", "B"],
        "share": 0.5,
        "explain": True,
        "context": "128k",
    }


@pytest.mark.parametrize(
    ("query", "tells"),
    [
        ({}, "model"),
        ({"model": ["x"], "colour": ["red"]}, ("'colour'", "model")),
        ({"model": ["x", "y"]}, ("2", "1")),
        ({"model": ["x"], "device": ["d"] * (MOST_VALUES + 1)}, (str(MOST_VALUES + 1), str(MOST_VALUES))),
        ({"model": ["x" * (LONGEST_VALUE + 1)]}, str(LONGEST_VALUE)),
        ({"model": ["a\0b"]}, "model"),
        ({"model": ["x"], "share": ["much"]}, "'much'"),
        ({"model": ["x"], "share": ["nan"]}, "'nan'"),
        ({"model": ["x"], "share": ["1e300"]}, "'1e300'"),
        ({"model": ["x"], "explain": ["perhaps"]}, "'perhaps'"),
    ],
)
def test_invalid_query_names_parameter_and_value(query, tells, wording):
    with pytest.raises(UserError) as found:
        flags(KNOWN, query)
    wording(found.value.message, found.value.hint, tells=tells)


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from(["model", "share", "device", "explain", "colour"]),
        st.lists(st.text(max_size=8), min_size=1, max_size=3),
        max_size=4,
    )
)
def test_any_query_is_parsed_or_a_user_error(query):
    understood = None
    with suppress(UserError):
        understood = flags(KNOWN, query)
    assert understood is None or "model" in understood
