"""Limits recognised by error text, clock skew, and deduplicated statements."""

import pytest

from unslow.fleet.prometheus.client import limit_in, parse_date_s, skew_text, span
from unslow.fleet.prometheus.connection import StatementLog, plain_text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("query processing would load too many samples into memory in query execution", "samples in one query"),
        ("cannot select more than -search.maxSamplesPerQuery=1000 samples", "samples in one query"),
        ("the query exceeded the maximum number of series (limit: 3 series)", "series in one query"),
        ("exceeded series limit: limit 1 violated (got 2)", "series in one query"),
        ("the number of matching timeseries exceeds 300000; either narrow down", "series in one query"),
        ("the number of matching unique timeseries exceeds 300000", "series in one query"),
        ("the query time range exceeds the limit (query length: 1h0m0s)", "the time range of one query"),
        ("exceeded maximum resolution of 11,000 points per timeseries", "points per series"),
        ("(err-mimir-max-chunks-per-query)", "data read for one query"),
        ("the query exceeded the maximum number of chunks", "data read for one query"),
        ("code = ResourceExhausted desc = bytes limit", "data read for one query"),
        ("too many outstanding requests", "concurrent queries"),
    ],
)
def test_server_limit_is_recognised_by_its_error_text(text: str, what: str):
    limit = limit_in(text)
    assert limit is not None
    assert limit.what == what
    assert limit.hint


@pytest.mark.parametrize(
    "text", ["unknown function with name foo", "boom", "", "many-to-many matching not allowed: labels on series"]
)
def test_other_error_texts_are_not_limits(text: str):
    assert limit_in(text) is None


def test_skew_beyond_the_round_trip_is_reported(wording):
    assert skew_text(1000.0, 1000.0, 0.1) == ""
    assert skew_text(1004.0, 1000.0, 0.1) == ""
    assert skew_text(1014.0, 1000.0, 20.0) == ""
    wording(skew_text(1420.0, 1000.0, 0.1), tells="7 min")
    wording(skew_text(1000.0, 1010.0, 0.1), tells="10 s")


def test_durations_are_shown_in_a_readable_unit():
    assert [span(s) for s in (0.25, 30, 119, 420, 7199, 7200, 86400, 172800)] == (
        ["0.25 s", "30 s", "119 s", "7 min", "120 min", "2 h", "24 h", "2 days"]
    )


def test_date_header_is_parsed():
    assert parse_date_s("Thu, 01 Jan 1970 00:01:00 GMT") == 60.0
    assert parse_date_s("yesterday") is None
    assert parse_date_s("") is None


def test_server_text_is_shortened_to_one_line():
    assert plain_text("a\x1b[31m\nb\u202ec") == "a [31m b c"
    assert len(plain_text("x" * 10_000)) == 300


def test_statement_about_several_queries_is_made_once(wording):
    said = StatementLog()
    for about in ("a", "b", "a", "c", "d"):
        said.say("partial", "a store is away", "wait", about)
    said.say("note", "no check")
    said.say("limit", "too much", "", "a")
    assert [one.kind for one in said.statements()] == ["partial", "note", "limit"]
    wording([one.text for one in said.statements()], tells=("a store is away", "4 queries", "no check", "too much"))


def test_number_of_statements_is_bounded(wording):
    said = StatementLog()
    for n in range(1000):
        said.say("partial", f"made up {n}")
    assert len(said.statements()) == 101
    wording(said.statements()[-1].text, tells="100")
