"""Instructions in the words of the machine and the runtime at hand: causes name a reading, its way is looked up."""

import re
from functools import lru_cache
from typing import NamedTuple

from unslow.catalog.readings import UNKNOWN, Way, readings
from unslow.facts.snapshot import Case
from unslow.think.adapt.remembered import remembered
from unslow.think.adapt.surroundings import container_of, makers_of, system_of
from unslow.think.placeholders import filled

_NAMED = re.compile(r"\{([a-z_]+)\}")


class _Here(NamedTuple):
    system: str
    makers: frozenset[str]
    container: str
    runtime: str
    log: str
    """Where the log of its loads is, where that was found."""


def spelled_out(advice: str, case: Case) -> str:
    """The advice with every reading that it names in braces replaced by the way to it that fits this case.

    Placeholders such as MODEL give way to what is known, as in the commands of fixes.
    """
    return remembered(case, ("spelled out", advice), lambda: _spelled_out(advice, case))


def _spelled_out(advice: str, case: Case) -> str:
    if _NAMED.search(advice):
        runtime = case.runtime.name.value_or("").lower() or UNKNOWN
        # Ollama's log always has all of it, those of others as much as they are told to write
        log = case.runtime.log_path.value_or("") if runtime == "ollama" else ""
        advice = _worded(advice, _Here(system_of(case) or UNKNOWN, makers_of(case), container_of(case), runtime, log))
    return filled(advice, case)


@lru_cache(maxsize=4096)  # a fleet has many instances in few surroundings
def _worded(advice: str, here: _Here) -> str:
    return _NAMED.sub(lambda found: _way(found[1], here, found[0]), advice)


def _way(name: str, here: _Here, else_: str) -> str:
    """The first way that fits, which may name other readings in turn; what is no reading stays as it is."""
    if name == "load_log" and here.log:
        return f"`{here.log}`"
    return next((_worded(way.does, here) for way in readings().get(name, ()) if _fits(way, here)), else_)


def _fits(way: Way, here: _Here) -> bool:
    return (
        (not way.systems or here.system in way.systems)
        and (not way.vendors or not here.makers.isdisjoint(way.vendors))
        and (not way.containers or here.container in way.containers)
        and (not way.runtimes or any(here.runtime.endswith(name.lower()) for name in way.runtimes))
    )
