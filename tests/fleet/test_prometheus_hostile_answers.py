"""Responses of a server that is not a Prometheus, or that changes labels: series without our mark, absurd values."""

import json

from unslow.fleet.engines import _fold_info
from unslow.fleet.joining import read_gpus
from unslow.fleet.prometheus.answers import QueryAnswer, Series, parse_series
from unslow.fleet.queries import Options


class Unmarked:
    """Answers every query with series that lack the label by which they are told apart."""

    def answer(self, _name: str) -> QueryAnswer:
        return QueryAnswer([Series({"instance": "a:1", "gpu": "0"}, 1.0), Series({"unslow_is": "nobody"}, 2.0)])

    def answers(self, of: str) -> list[QueryAnswer]:
        return [self.answer(of)]


def test_series_without_a_mark_are_ignored():
    assert read_gpus(Unmarked(), Options()) == []
    _fold_info(Unmarked(), {})


def test_impossible_values_are_ignored():
    result = [
        {"metric": {"n": str(n)}, "value": [1, text]} for n, text in enumerate(("1e308", "-1e300", "1e-320", "5"))
    ]
    body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
    decoded = parse_series(body, 100)
    assert [one.value for one in decoded.series] == [5.0]
