"""Recording rules for a Prometheus: one quantity under one name, whichever exporter told it."""

from functools import cache

import msgspec

from unslow.catalog import entries


class Way(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one exporter tells a quantity; `labels` are added, so that two ways never write the same series."""

    expr: str
    labels: dict[str, str] = {}


class Recorded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A quantity; `record` is `level:metric:operations`, as Prometheus has its names."""

    record: str
    why: str
    ways: tuple[Way, ...]


class Recordings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group of quantities in the order in which they are computed; `order` is that of the groups."""

    order: int
    source: str
    """Where the names of the metrics were read."""
    rules: tuple[Recorded, ...]
    wrap: str = "EXPR"
    """Put around every expression, in place of the word EXPR: what gives all of the group the same labels."""


@cache
def recordings() -> dict[str, Recordings]:
    """The groups by name, in the order in which each may use those before it."""
    return dict(sorted(entries("recordings", Recordings), key=lambda named: named[1].order))


def expression(group: Recordings, way: Way) -> str:
    """What is computed, with what the group puts around it; lines that go on are set in."""
    inner = way.expr.strip()
    if group.wrap == "EXPR":
        return inner
    return group.wrap.strip().replace("EXPR", "\n".join(["", *(f"  {line}" for line in inner.splitlines()), ""]))
