"""All built machines, by what they are about."""

from lab.built_machines import (
    apple_desktops,
    backends,
    boards,
    boxes,
    clocks,
    engines,
    engines_busy,
    launches,
    links,
    linux_desktops,
    memory,
    plain_folders,
    processors,
    series,
    serving,
    settings,
    several,
    windows_desktops,
)
from lab.built_machines.built import Built

_PARTS = (
    clocks,
    series,
    memory,
    backends,
    links,
    processors,
    several,
    serving,
    settings,
    launches,
    engines,
    engines_busy,
    boards,
    boxes,
    apple_desktops,
    windows_desktops,
    linux_desktops,
    plain_folders,
)


def every() -> tuple[Built, ...]:
    """Each with a name of its own."""
    return tuple(built for part in _PARTS for built in part.machines())
