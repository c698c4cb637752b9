"""The queries of one reading, each sent while the answer before it is read, and the place of every value in them."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from unslow.catalog.prometheus import ExporterSubject, exporters
from unslow.facts.errors import UserError
from unslow.fleet.prometheus.answers import QueryAnswer
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.queries import MARK, PACKS, Options, Part, all_queries, there_query

NOT_ANSWERED = "query failed"  # How the reason begins where a query failed: the statement on that query says why
_RANKS = 16
"""More expressions for the same than any reading has; an order is the place of the voice times this, and the rank."""
LEAST, MOST = 1e-12, 1e15
"""Of a reading, in SI units: less is the rest of a sum, and a petabyte, a petahertz or less than nothing is what an
exporter writes that could not read (2^31 and 2^63 less a few are the blanks of DCGM)."""


class RawReadings(Protocol):
    """Something that readings are kept of."""

    raw: dict[str, tuple[int, float, str]]


RawT = TypeVar("RawT", bound=RawReadings)
Find = Callable[[dict[str, str], Part], tuple[RawT, int] | None]


class Asking(AbstractContextManager["Asking"]):
    """The questions of one reading, by name."""

    def __init__(self, prometheus: Prometheus, options: Options) -> None:
        self._prometheus = prometheus
        self.failures: dict[str, list[str]] = {}  # Names of queries without an answer, by what they are about
        self.counts = self._counts(options)
        self._queries = {query.name: query for query in all_queries(options, self.counts) if query.of != "all"}
        self._left, self._coming = list(self._queries), dict[str, Future[QueryAnswer]]()
        self._thread = ThreadPoolExecutor(1)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Ask nothing more; an error, such as Ctrl-C, waits for no answer: whoever caught it hangs up next."""
        self._thread.shutdown(wait=kind is None, cancel_futures=True)

    def answer(self, name: str) -> QueryAnswer:
        """The answer, empty where nobody there could give one; the next question is on its way meanwhile."""
        query = self._queries.get(name)
        if query is None:
            return QueryAnswer([])
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

    def answers(self, of: ExporterSubject) -> Iterator[QueryAnswer]:
        return (self.answer(name) for name, about, *_ in PACKS if about == of)

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
        # Of pods only what belongs to engines is asked for, however much there is
        read = {name: count for name, count in counts.items() if exporters()[name].of != "pods"}
        large = max(read, key=lambda name: read[name], default="")
        if large and read[large] > options.most_series:
            anchor = exporters()[large].anchor
            raise UserError(
                f"{anchor} has {read[large]:,} series; at most {options.most_series:,} can be read at once",
                """select a part of the fleet, such as --match 'cluster="a"'""",
            )
        return counts


def fold(
    answered: QueryAnswer,
    parts: Mapping[str, Part],
    known: MutableMapping[str, tuple[RawT, int] | None],
    find: Find[RawT] | None = None,
    before: str = "",
) -> None:
    """Put every value where it belongs; `known` remembers where, as the same labels come in every answer."""
    for labels, value in answered.series:
        part = parts.get(labels.pop(MARK, ""))
        if part is None or not 0.0 <= value <= MOST:
            continue
        key = "\0".join([*labels, *labels.values()])  # `quick_key`, without the call
        if key not in known:
            known[key] = find(labels, part) if find else None
        place = known[key]
        if place is None:
            continue
        raw, order = place[0].raw, place[1] * _RANKS + part.rank
        quantity = before + part.quantity if before else part.quantity
        held = raw.get(quantity)
        if held is None or order < held[0]:
            raw[quantity] = (order, value if value >= LEAST else 0.0, part.source)
