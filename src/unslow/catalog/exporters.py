"""Exporters that a Prometheus may scrape, and how a fleet is read of each: one TOML for each, found by presence.

An expression is PromQL with some things left open: `{}` takes the user's matchers, `[W]` the window, `[W:S]` a subquery
over it and `N` the number of its steps. Before the expressions of a reading stands how series of one target are put
together: `sum`, `avg`, `max`, `min`, `count`, or nothing. Where there are several expressions, the first that a target
answers holds.
"""

from functools import cache
from typing import Literal

import msgspec

from unslow.catalog import entries

Of = Literal["engine", "gpu", "host", "pods", "own"]
FOLDS = ("sum", "avg", "max", "min", "count", "")


class Exporter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one program tells of a target, by the names of `fleet/quantities` or of what those are computed from."""

    of: Of
    anchor: str
    """The metric that every target of it has: counted first, to know whether it is there and how often."""
    source: str
    runtime: str = ""
    vendor: str = ""
    own: tuple[str, ...] = ()
    """Labels that the program itself puts on its series: those of the target are the rest."""
    not_with: tuple[str, ...] = ()
    """Labels of somebody else who speaks of engines under the same names, such as a router: not an engine itself."""
    same: tuple[str, ...] = ()
    """Labels of ranks that all tell the same."""
    counter: str = ""
    """The one that falls where the program starts anew."""
    info: str = ""
    info_is: str = ""
    """The reading that the value of the information is, where it is one."""
    info_labels: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    """Readings that are asked for a second time, of the time that the window is compared with."""
    labels: dict[str, tuple[str, ...]] = {}
    """Where something is told by a label of its own: model, name, index, identity, driver."""
    readings: dict[str, tuple[str, ...]] = {}


@cache
def exporters() -> dict[str, Exporter]:
    """Every exporter by the name of its file."""
    return dict(entries("exporters", Exporter))


def exporters_of(of: Of) -> dict[str, Exporter]:
    """Those that tell of engines, GPUs, hosts, pods, or of our own diagnosis."""
    return {name: one for name, one in exporters().items() if one.of == of}
