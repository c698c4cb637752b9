"""What the tests of asking ask for: two series that Prometheus makes up, and how they are asked for."""

from collections.abc import Callable

from lab.fleet.unwell import Unwell

from unslow.fleet.prometheus.answers import Series
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.prometheus.connection import Access

Proxy = Callable[..., Unwell]
TWO = 'label_replace(vector(1),"host","a","","") or label_replace(vector(2),"host","b","","")'
BOTH = [Series({"host": "a"}, 1.0), Series({"host": "b"}, 2.0)]


def asking(url: str, **fields: object) -> Prometheus:
    """A client with little patience."""
    return Prometheus(Access(url=url, **({"timeout_s": 5.0, "restart_s": 2.0} | fields)))  # type: ignore[arg-type]


def by_host(series: list[Series]) -> list[Series]:
    """In one order."""
    return sorted(series, key=lambda one: one.labels["host"])
