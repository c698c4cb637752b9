"""All built machines, by what they are about."""

from lab.built_machines import backends, clocks, launches, links, memory, processors, series, serving, settings, several
from lab.built_machines.built import Built

_PARTS = (clocks, series, memory, backends, links, processors, several, serving, settings, launches)


def every() -> tuple[Built, ...]:
    """Each with a name of its own."""
    return tuple(built for part in _PARTS for built in part.machines())
