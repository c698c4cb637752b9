"""What a Prometheus answered, parsed with nothing taken on trust: series with one value each, or with a curve."""

import gc
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

import msgspec

from unslow.facts.values import is_reading


class Series(NamedTuple):
    """One series at one moment."""

    labels: dict[str, str]  # With `__name__` where the query keeps it
    value: float


class Curve(NamedTuple):
    """One series over time; a moment without a sample is not there."""

    labels: dict[str, str]
    times_s: list[float]
    values: list[float]


class QueryAnswer(NamedTuple):
    """The answer to one instant query; every value is finite, and no two series have the same labels."""

    series: list[Series]
    failure: str = ""  # Why there is no answer, where the server refused this query alone; the series are empty then
    hint: str = ""  # What to do about a failure


class AnsweredCurves(NamedTuple):
    """The answer to one range query."""

    curves: list[Curve]
    failure: str = ""


INSTANT, RANGE = "vector", "matrix"
_SERIES_BEGINS = b'"metric":{'
_new = tuple.__new__  # a named tuple made by its own name takes three times as long
R = TypeVar("R")
L = TypeVar("L", Series, Curve)


class _Point(msgspec.Struct, gc=False, array_like=True):
    at_s: float
    text: str


class _Sample(msgspec.Struct, gc=False):
    metric: dict[str, str]
    value: _Point | None = None  # None for a native histogram, which has no one value


class _Samples(msgspec.Struct, gc=False):
    metric: dict[str, str]
    values: list[_Point] = []


class _Data(msgspec.Struct, Generic[R], rename="camel"):
    result_type: str
    result: R


class Head(msgspec.Struct, rename="camel"):
    """What an answer says of itself."""

    status: str = ""
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None
    infos: list[str] | None = None
    is_partial: bool = False  # VictoriaMetrics says so where a storage node did not answer


class _WholeAnswer(Head, Generic[R], rename="camel"):
    data: _Data[R] | None = None


class DecodedAnswer(NamedTuple):
    """An answer of either kind; of series with the same labels the first is kept, and of none one without a value."""

    head: Head
    series: list[Series]
    curves: list[Curve]
    duplicates: int = 0
    at_s: float | None = None  # The moment of the first series of an instant query


class BadAnswerError(Exception):
    """The answer is none: `limit` where it is only too large."""

    def __init__(self, why: str, *, limit: bool = False) -> None:
        super().__init__(why)
        self.limit = limit


_VECTOR = msgspec.json.Decoder(_WholeAnswer[list[_Sample] | None])
_MATRIX = msgspec.json.Decoder(_WholeAnswer[list[_Samples] | None])
_SCALAR = msgspec.json.Decoder(_WholeAnswer[_Point])
_ANY = msgspec.json.Decoder(_WholeAnswer[msgspec.Raw])
_HEAD = msgspec.json.Decoder(Head)


@contextmanager
def without_collector() -> Iterator[None]:
    """Millions of small things without a cycle among them: looking for one as they grow takes a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@without_collector()
def parse_series(body: bytes, most: int) -> DecodedAnswer:
    """The answer to an instant query: a vector, or one number."""
    _check_count(body.count(_SERIES_BEGINS), most)  # before an object is made of each
    try:
        whole = _VECTOR.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _scalar(body)
    if whole.data is None or whole.data.result_type != INSTANT:
        raise _bad_answer(body, INSTANT)
    found = whole.data.result or []
    _check_count(len(found), most)  # of a server that writes its JSON in another way
    try:
        finite = [
            _new(Series, (one.metric, value))
            for one in found
            if one.value and is_reading(value := float(one.value.text))
        ]
    except ValueError as error:
        raise BadAnswerError("its response has a value that is not a number") from error
    kept = _first_of_each(finite)
    at_s = found[0].value.at_s if found and found[0].value else None
    return DecodedAnswer(_head(whole), kept, [], len(finite) - len(kept), at_s)


@without_collector()
def parse_curves(body: bytes, most: int) -> DecodedAnswer:
    """The answer to a range query."""
    _check_count(body.count(_SERIES_BEGINS), most)  # before an object is made of each
    try:
        whole = _MATRIX.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise _bad_answer(body, RANGE) from None
    if whole.data is None or whole.data.result_type != RANGE:
        raise _bad_answer(body, RANGE)
    found = whole.data.result or []
    _check_count(len(found), most)
    try:
        told = [
            (one.metric, [(p.at_s, value) for p in one.values if is_reading(value := float(p.text))]) for one in found
        ]
    except ValueError as error:
        raise BadAnswerError("its response has a value that is not a number") from error
    curves = [
        Curve(metric, [at for at, _ in points], [value for _, value in points]) for metric, points in told if points
    ]
    kept = _first_of_each(curves)
    return DecodedAnswer(_head(whole), [], kept, len(curves) - len(kept))


def parse_head(body: bytes) -> Head | None:
    """What an answer says of itself; None where it is no answer of a Prometheus."""
    try:
        head = _HEAD.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return head if head.status else None


def _scalar(body: bytes) -> DecodedAnswer:
    try:
        whole = _SCALAR.decode(body)
        value = float(whole.data.result.text) if whole.data else math.inf
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        raise _bad_answer(body, INSTANT) from None
    if whole.data is None or whole.data.result_type != "scalar":
        raise _bad_answer(body, INSTANT)
    series = [Series({}, value)] if is_reading(value) else []
    return DecodedAnswer(_head(whole), series, [], 0, whole.data.result.at_s)


def _head(whole: Head) -> Head:
    """Alone, or it would keep the rest of the answer in memory."""
    return Head(whole.status, whole.error_type, whole.error, whole.warnings, whole.infos, whole.is_partial)


def _first_of_each(found: list[L]) -> list[L]:
    """Without those whose labels were there before; a server writes the names in one order, so values tell first."""
    if len({hash(tuple(one.labels.values())) for one in found}) == len(found):
        return found
    first: dict[frozenset[tuple[str, str]], L] = {}
    for one in found:
        first.setdefault(frozenset(one.labels.items()), one)
    return list(first.values())


def _check_count(count: int, most: int) -> None:
    if count > most:
        raise BadAnswerError(f"its response has {count:,} series, more than {most:,}", limit=True)


def _bad_answer(body: bytes, expected: str) -> BadAnswerError:
    try:
        whole = _ANY.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        start = body[:200].lstrip().lower()
        if not start:
            return BadAnswerError("its response is empty")
        if start.startswith((b"<!doctype", b"<html", b"<?xml")):
            return BadAnswerError("its response is a web page")
        if "truncated" in str(error):
            return BadAnswerError("its response is truncated")
        return BadAnswerError("its response is not Prometheus JSON")
    if whole.status == "error":
        return BadAnswerError(whole.error or whole.error_type or "an error without a reason")
    kind = whole.data.result_type[:40] if whole.data else "nothing"
    if kind == expected:
        return BadAnswerError(f"its response is not a valid {expected}")
    return BadAnswerError(f"its response is {kind!r}, expected {expected!r}")
