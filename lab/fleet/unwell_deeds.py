"""What can be wrong with the answer of a Prometheus, each under its name: statuses, words, series, clocks."""

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Literal

Manner = Literal["whole", "hang_up", "cut", "reset", "close", "drip"]
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Answer:
    """What is sent, and in which manner."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    manner: Manner = "whole"


@dataclass(frozen=True)
class Ask:
    """A query as it came, how to ask the real server, and how much of the deed is wanted."""

    method: str
    form: dict[str, str]
    headers: Mapping[str, str]
    forward: Callable[[dict[str, str]], Answer]
    amount: float

    def real(self) -> Answer:
        """What the real server answers."""
        return self.forward(self.form)


Deed = Callable[[Ask], Answer]
DEEDS: dict[str, Deed] = {"pass": Ask.real}


def deed(function: Deed) -> Deed:
    """By the name of the function."""
    DEEDS[function.__name__] = function
    return function


def _manner(manner: Manner) -> Deed:
    return lambda ask: replace(ask.real(), manner=manner)


def _refuses(status: int, error: str, kind: str = "execution") -> Deed:
    body = json.dumps({"status": "error", "errorType": kind, "error": error}).encode()
    return lambda _: Answer(status, body)


def _says(status: int, text: str, kind: str = "text/plain", **headers: str) -> Deed:
    return lambda _: Answer(status, text.encode(), {"Content-Type": kind, **headers})


def _adds(**fields: Any) -> Deed:
    def added(ask: Ask) -> Answer:
        real = ask.real()
        return replace(real, body=json.dumps(json.loads(real.body) | fields).encode())

    return added


DEEDS |= {
    "cut": _manner("cut"),
    "hang_up": _manner("hang_up"),
    "reset": _manner("reset"),
    "close": _manner("close"),
    "drip": _manner("drip"),
    "starting": _says(503, "Service Unavailable"),
    "gateway": _says(502, "<html><h1>502 Bad Gateway</h1></html>", "text/html"),
    "page": _says(200, "<!DOCTYPE html><html><title>Log in</title></html>", "text/html"),
    "unauthorized": _says(401, "Unauthorized"),
    "no_tenant": _says(401, "no org id"),
    "forbidden": _says(403, "<html>Forbidden</html>", "text/html"),
    "elsewhere": _says(302, "", Location="http://login.example.org/start?token=secret"),
    "to_nowhere": _says(307, "", Location="//[x"),
    "to_tls": _says(301, "", Location="https://127.0.0.1/api/v1/query"),
    "empty": _says(200, ""),
    "other_json": _says(200, '["not", "a", "Prometheus"]'),
    "error_with_200": _refuses(200, "a proxy swallowed the status"),
    # The words are those of Prometheus, Mimir, Thanos and VictoriaMetrics.
    "timed_out": _refuses(503, "query timed out in expression evaluation", "timeout"),
    "too_many_samples": _refuses(422, "query processing would load too many samples into memory in query execution"),
    "mimir_series": _refuses(
        422,
        "expanding series: the query exceeded the maximum number of series (limit: 3 series) "
        "(err-mimir-max-series-per-query). To adjust the related per-tenant limit, configure "
        "-querier.max-fetched-series-per-query, or contact your service administrator.",
    ),
    "mimir_length": _refuses(
        422,
        "the query time range exceeds the limit (query length: 1h0m0s, limit: 1m0s) (err-mimir-max-query-length).",
        "bad_data",
    ),
    "thanos_series": _refuses(
        422, "expanding series: rpc error: code = ResourceExhausted desc = exceeded series limit: limit 1 violated"
    ),
    "victoria_series": _refuses(
        422, "the number of matching timeseries exceeds 300000; either narrow down the search", "422"
    ),
    "busy": _refuses(429, "too many outstanding requests", "too_many_requests"),
    "unavailable": _refuses(503, "at least 2 live replicas required, could only find 1", "unavailable"),
    "internal": _refuses(500, "boom", "internal"),
    "partial": _adds(warnings=["receive series from Addr: store-1:10901: connection refused"]),
    "partly_stored": _adds(isPartial=True),
    "informed": _adds(infos=["PromQL info: metric might not be a counter"]),
}


@deed
def no_post(ask: Ask) -> Answer:
    """A server for readers only."""
    return Answer(405, b"Method Not Allowed") if ask.method == "POST" else ask.real()


@deed
def last_word(ask: Ask) -> Answer:
    """The connection ends with the answer, and it says so."""
    real = ask.real()
    return replace(real, headers={**real.headers, "Connection": "close"}, manner="hang_up")


@deed
def late_value(ask: Ask) -> Answer:
    """As VictoriaMetrics does it: the value of half a minute ago, with the moment that was asked for, in a vector."""
    real = ask.real()
    whole = json.loads(real.body)
    if whole["data"]["resultType"] == "scalar":
        at_s, value = whole["data"]["result"]
        rows = [{"metric": {}, "value": [at_s, str(float(value) - 30)]}]
        whole["data"] = {"resultType": "vector", "result": rows}
    return replace(real, body=json.dumps(whole).encode())


@deed
def half_json(ask: Ask) -> Answer:
    """An answer that ends well by HTTP, and in the middle of its JSON."""
    real = ask.real()
    return replace(real, body=real.body[: len(real.body) // 2])


@deed
def packed(ask: Ask) -> Answer:
    """With gzip, asked for or not."""
    real = ask.real()
    return replace(real, body=gzip.compress(real.body), headers={**real.headers, "Content-Encoding": "gzip"})


@deed
def packed_badly(ask: Ask) -> Answer:
    """With gzip that ends in the middle."""
    whole = packed(ask)
    return replace(whole, body=whole.body[:-20])


@deed
def bomb(ask: Ask) -> Answer:
    """So many megabytes of nothing, in a thousandth of the bytes."""
    data = gzip.compress(b" " * int(1e6 * (ask.amount or 100)))
    return Answer(200, data, {**JSON, "Content-Encoding": "gzip"})


@deed
def huge(ask: Ask) -> Answer:
    """So many series."""
    labels = '"__name__":"up","instance":"host-%d:9100","job":"node"'
    rows = ",".join(f'{{"metric":{{{labels % i}}},"value":[1,"1"]}}' for i in range(int(ask.amount or 1000)))
    return Answer(200, f'{{"status":"success","data":{{"resultType":"vector","result":[{rows}]}}}}'.encode())


@deed
def twice(ask: Ask) -> Answer:
    """Every series a second time, with a value that is ten times as much."""
    real = ask.real()
    whole = json.loads(real.body)
    rows = whole["data"]["result"]
    if whole["data"]["resultType"] == "vector":
        more = [row | {"value": [row["value"][0], str(10 * float(row["value"][1]))]} for row in rows]
        whole["data"]["result"] = rows + more
    return replace(real, body=json.dumps(whole).encode())


@deed
def skewed(ask: Ask) -> Answer:
    """A server whose clock is so many seconds ahead, and whose samples have the times of that clock."""
    moments = ("time", "start", "end")
    form = {k: f"{float(v) - ask.amount:.3f}" if k in moments else v for k, v in ask.form.items()}
    real = ask.forward(form)
    whole = json.loads(real.body)
    if whole.get("data", {}).get("resultType") == "scalar" and form["query"] == "time()":
        at_s = whole["data"]["result"][0] + ask.amount
        whole["data"]["result"] = [at_s, str(at_s)]
    date = format_datetime(datetime.fromtimestamp(datetime.now(UTC).timestamp() + ask.amount, UTC), usegmt=True)
    return replace(real, body=json.dumps(whole).encode(), headers={**real.headers, "Date": date})


@deed
def repeats_secrets(ask: Ask) -> Answer:
    """A proxy that tells what it was told."""
    told = "; ".join(f"{name}: {value}" for name, value in ask.headers.items())
    return _refuses(400, f"I got \x1b[31m{told}", "bad_data")(ask)
