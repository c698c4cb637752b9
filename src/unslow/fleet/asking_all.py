"""Asking every question once, in order, and remembering which was not answered."""

from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from unslow.catalog.exporters import exporters
from unslow.facts.errors import UserError
from unslow.fleet.answered import Answered
from unslow.fleet.options import Options
from unslow.fleet.queries import all_queries
from unslow.fleet.special_queries import there_query

NOT_ANSWERED = "not answered"
"""How the reason begins where a query failed: the statement on that query says why."""
_WHOLE = ("pods",)
"""Kinds of which only what belongs to engines is asked for, however much there is."""


class Asked(Protocol):
    """What is needed of a Prometheus; `asking.prometheus.Prometheus` is one."""

    @property
    def now_s(self) -> float:
        """The moment of every query."""

    def instant(self, query: str, at: float | None = None, about: str = "") -> Answered:
        """The answer to one query."""


class Asking:
    """The questions of one reading, by name."""

    def __init__(self, prometheus: Asked, options: Options) -> None:
        self._prometheus = prometheus
        self.failures: dict[str, list[str]] = {}
        """Names of queries without an answer, by what they are about."""
        self.counts = self._counts(options)
        self._queries = {query.name: query for query in all_queries(options, self.counts) if query.of != "all"}
        self._left, self._coming = list(self._queries), dict[str, Future[Answered]]()
        self._thread = ThreadPoolExecutor(1)

    def close(self, *, wait: bool = True) -> None:
        """Ask nothing more; whoever does not `wait` hangs up next, which ends the question that is on its way."""
        self._thread.shutdown(wait=wait, cancel_futures=True)

    def answer(self, name: str) -> Answered:
        """The answer, empty where nobody there could give one; the next question is on its way meanwhile."""
        query = self._queries.get(name)
        if query is None:
            return Answered([])
        self._send(name)
        answered = self._coming.pop(name).result()
        if self._left:
            self._send(self._left[0])
        if answered.failure:
            self.failures.setdefault(query.of, []).append(name)
        return answered

    def _send(self, name: str) -> None:
        if name in self._left:
            self._left.remove(name)
            query = self._queries[name]
            self._coming[name] = self._thread.submit(self._prometheus.instant, query.promql, about=name)

    def unplaced(self) -> str:
        """Why nobody may know where a pod runs; empty where that was told."""
        lacking = [name for name in self.failures.get("pods", ()) if name == "pods"]
        return f"{NOT_ANSWERED}: {', '.join(lacking)}" if lacking else ""

    def unanswered(self) -> dict[str, str]:
        """Why something may be missing of an engine, of GPUs or of hosts."""
        kinds = {"engine": "engine", "gpu": "gpus", "host": "host"}
        return {kinds[of]: f"{NOT_ANSWERED}: {', '.join(names)}" for of, names in self.failures.items() if of in kinds}

    def must(self, name: str) -> Answered:
        """The answer that nothing can be told without; UserError where there is none."""
        answered = self.answer(name)
        if answered.failure:
            hint = answered.hint or "narrow it: --match"
            raise UserError(f"Prometheus does not say which engines it has: {answered.failure}", hint)
        return answered

    def _counts(self, options: Options) -> dict[str, int]:
        """Series of each exporter that is there; UserError where they are more than may be read.

        Where nobody says so, each may be there and is asked for: what is too large is then known by its own answer.
        """
        answered = self._prometheus.instant(there_query(options).promql, about="there")
        if answered.failure:
            self.failures["all"] = ["there"]
            return dict.fromkeys(exporters(), 0)
        told = {series.labels.get("__name__", ""): int(series.value) for series in answered.series}
        counts = {name: told[one.anchor] for name, one in exporters().items() if told.get(one.anchor)}
        _check(counts, options.most_series)
        return counts


def _check(counts: dict[str, int], most: int) -> None:
    read = {name: count for name, count in counts.items() if exporters()[name].of not in _WHOLE}
    large = max(read, key=lambda name: read[name], default="")
    if large and read[large] > most:
        anchor = exporters()[large].anchor
        raise UserError(
            f"there are {read[large]:,} series of {anchor}, and at most {most:,} are read at once",
            """narrow it, such as --match 'cluster="a"', and judge one part after the other""",
        )


def there_are(counts: Collection[str], of: str) -> bool:
    """Whether any exporter of a kind is there."""
    return any(exporters()[name].of == of for name in counts)
