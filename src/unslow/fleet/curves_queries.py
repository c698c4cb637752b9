"""The range queries for capacity: seven, whatever the number of instances, each over all runtimes of the catalogue."""

from typing import NamedTuple

from unslow.catalog.exporters import Exporter, exporters_of
from unslow.fleet.options import Options
from unslow.fleet.promql import filled, folded

_MEAN, _SPREAD = "avg_over_time(", "stddev_over_time("


class CurveQuery(NamedTuple):
    """One range query, and what it is for."""

    name: str
    promql: str
    why: str


def curve_queries(options: Options, window_s: float) -> tuple[CurveQuery, ...]:
    """All of them, each value taken over a window, one series for each target."""
    ask = _Asking(options.matchers(engines=True), max(1.0, round(window_s)))
    return (
        CurveQuery("running", ask.values("running"), "requests that are answered at once"),
        CurveQuery("uneasy", ask.values("running").replace(_MEAN, _SPREAD), "how much that changes within a window"),
        CurveQuery("waiting", ask.values("waiting"), "requests that find no place"),
        CurveQuery("cache_used", ask.values("cache_used"), "how full the KV caches are"),
        CurveQuery("tokens_per_s", ask.values("generated_tokens_per_s"), "tokens of all answers together"),
        CurveQuery(
            "gap_s",
            f"{ask.ratios('token_gap_s_sum', 'token_gap_s_count')} or {ask.ratios('decode_busy_s', 'decode_tokens')}",
            "seconds between two tokens of one request",
        ),
        CurveQuery("first_token_s", ask.ratios("first_token_s_sum", "first_token_s_count"), "times to the first token"),
    )


class _Asking(NamedTuple):
    matchers: str
    window_s: float

    def values(self, reading: str) -> str:
        """A reading of whichever engine tells it."""
        return " or ".join(found for one in exporters_of("engine").values() for found in self._ways(one, reading))

    def ratios(self, above: str, below: str) -> str:
        """One reading for each of another; a window without any has no answer."""
        pairs = (
            f"({most} / ({least} > 0))"
            for one in exporters_of("engine").values()
            for most, least in zip(self._ways(one, above), self._ways(one, below), strict=True)
        )
        return " or ".join(pairs)

    def _ways(self, exporter: Exporter, reading: str) -> list[str]:
        """Its expressions, the first that answers holds; ranks and copies of a model are put together."""
        fold, *ways = exporter.readings.get(reading, ("",))
        return [folded(filled(way, self.matchers, self.window_s), fold, exporter.own, exporter.same) for way in ways]
