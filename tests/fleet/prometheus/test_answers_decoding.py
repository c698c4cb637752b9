"""Valid responses, and everything else that a server could send."""

import gc
import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.facts.values import is_reading
from unslow.fleet.prometheus.answers import BadAnswerError, Curve, Series, parse_curves, parse_head, parse_series

MOST = 1000


def answer(result: Any, kind: str = "vector", **more: Any) -> bytes:
    data = {"resultType": kind, "result": result}
    return json.dumps({"status": "success", "data": data, **more}, separators=(",", ":")).encode()


def sample(value: str, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [1.5, value]}


def test_vector_response_is_parsed():
    got = parse_series(answer([sample("1.5e3", a="x"), sample("-0", a="y")]), MOST)
    assert got.series == [Series({"a": "x"}, 1500.0), Series({"a": "y"}, 0.0)]
    assert type(got.series[0]) is Series
    assert got.duplicates == 0


def test_label_names_are_interned():
    first, second = parse_series(answer([sample("1", instance="x"), sample("2", instance="y")]), MOST).series
    assert next(iter(first.labels)) is next(iter(second.labels))


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "Inf", "nan"])
def test_nan_and_infinite_values_are_dropped(value: str):
    got = parse_series(answer([sample(value, a="x"), sample("1", a="y")]), MOST)
    assert got.series == [Series({"a": "y"}, 1.0)]


def test_native_histogram_is_dropped():
    got = parse_series(answer([{"metric": {"a": "x"}, "histogram": [1, {"count": "3"}]}]), MOST)
    assert got.series == []


def test_a_scalar_is_a_series_without_labels():
    assert parse_series(answer([1.5, "42"], "scalar"), MOST).series == [Series({}, 42.0)]
    assert parse_series(answer([1.5, "NaN"], "scalar"), MOST).series == []


def test_duplicate_labels_keep_the_first_series():
    rows = [sample("1", a="x", b="y"), sample("2", a="x", b="y"), sample("3", a="x", c="y"), sample("4", b="y", a="x")]
    got = parse_series(answer(rows), MOST)
    assert [one.value for one in got.series] == [1.0, 3.0]
    assert got.duplicates == 2


def test_curves_drop_points_without_a_value():
    rows = [
        {"metric": {"a": "x"}, "values": [[1, "1"], [2, "NaN"], [3, "3"]]},
        {"metric": {"a": "y"}, "values": [[1, "NaN"]]},
        {"metric": {"a": "x"}, "values": [[1, "9"]]},
    ]
    got = parse_curves(answer(rows, "matrix"), MOST)
    assert got.curves == [Curve({"a": "x"}, [1.0, 3.0], [1.0, 3.0])]
    assert got.duplicates == 1


def test_warnings_infos_and_is_partial_are_read():
    head = parse_series(answer([], warnings=["w"], infos=["i"], isPartial=True), MOST).head
    assert (head.warnings, head.infos, head.is_partial) == (["w"], ["i"], True)


def test_null_result_is_an_empty_response():
    assert parse_series(answer(None, warnings=None, infos=None), MOST).series == []
    assert parse_curves(answer(None, "matrix"), MOST).curves == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b" <!DOCTYPE html><html>", "web page"),
        (b"<html>", "web page"),
        (b"[1, 2", "not Prometheus JSON"),
        (b'{"status":"success","data":{"resultType":"vector","resu', "truncated"),
        (b"hello", "not Prometheus JSON"),
        (b"\xff\xfe\x00", "not Prometheus JSON"),
        (b"[" * 100_000, "not Prometheus JSON"),
        (b"{}", "nothing"),
        (answer("text", "string"), "'string', expected 'vector'"),
        (answer([{"metric": {}, "values": []}], "matrix"), "'matrix', expected 'vector'"),
        (answer([{"stream": {}, "values": []}], "streams"), "'streams', expected 'vector'"),
        (answer([{"metric": {"a": 1}, "value": [1, "1"]}]), "not a valid vector"),
        (answer([{"metric": {"a": "b"}, "value": [1, "one"]}]), "not a number"),
        (answer([{"metric": {"a": "b"}, "value": [1]}]), "not a valid vector"),
        (answer([1, "one"], "scalar"), "'scalar', expected"),
        (b'{"status":"error","error":"swallowed"}', "swallowed"),
    ],
)
def test_unexpected_body_is_named_in_the_error(body: bytes, words: str):
    with pytest.raises(BadAnswerError, match=words) as error:
        parse_series(body, MOST)
    assert not error.value.limit


def test_too_many_series_are_refused_before_decoding(wording):
    with pytest.raises(BadAnswerError) as error:
        parse_series(answer([sample("1", a=str(n)) for n in range(3)]), 2)
    assert error.value.limit
    wording(str(error.value), tells=("3 series", "2"))
    spaced = json.dumps(json.loads(answer([sample("1", a=str(n)) for n in range(3)]))).encode()
    with pytest.raises(BadAnswerError, match="3 series"):
        parse_series(spaced.replace(b'"metric":', b'"metric" :'), 2)


def test_garbage_collector_is_enabled_again_after_a_failure():
    with pytest.raises(BadAnswerError):
        parse_series(b"no", MOST)
    assert gc.isenabled()


LABELS = st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=12), max_size=5)
VALUES = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=40)
@given(st.lists(st.tuples(LABELS, VALUES), max_size=8))
def test_arbitrary_series_round_trip(rows: list[tuple[dict[str, str], float]]):
    got = parse_series(answer([sample(repr(value)) | {"metric": labels} for labels, value in rows]), MOST)
    first: dict[frozenset[tuple[str, str]], float] = {}
    for labels, value in rows:
        if math.isfinite(value) and is_reading(value):
            first.setdefault(frozenset(labels.items()), value)
    assert {frozenset(one.labels.items()): one.value for one in got.series} == first
    assert len(got.series) + got.duplicates == sum(is_reading(value) for _, value in rows)


WHOLE = answer([sample("1", instance="a", job="ü"), sample("2", instance="b")], warnings=["x"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["status", "data", "resultType", "result", "metric", "value", "x"]), inner)
    ),
    max_leaves=12,
)


@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=3))
def test_corrupted_bytes_parse_or_raise_bad_answer(place: int, other: bytes):
    with pytest.raises(BadAnswerError):
        parse_series(WHOLE[:place], MOST)
    for parse in (parse_series, parse_curves):
        try:
            got = parse(WHOLE[:place] + other + WHOLE[place + 1 :], MOST)
        except BadAnswerError:
            continue
        assert all(math.isfinite(one.value) for one in got.series)


@settings(max_examples=60)
@given(ANYTHING)
def test_arbitrary_json_parses_or_raises_bad_answer(value: Any):
    body = json.dumps(value).encode()
    for parse in (parse_series, parse_curves):
        with suppress(BadAnswerError):
            assert parse(body, MOST).head.status in ("", "success") or isinstance(value, dict)
    assert parse_head(body) is None or "status" in value
