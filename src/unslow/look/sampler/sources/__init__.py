"""Sources that can be read many times a second, found by presence.

A source is a function `open_<name>(live, pids, closing) -> list[Reading]`: it opens what it needs once, so that a
reading is one system call and as little parsing as will do. LookError says why there is nothing to read. What must be
closed is given to `closing`. In a module with `DRIVER = True` it asks a driver, which may hang: it is opened with a
limit of time, and each of its devices is read in a thread of its own.
"""

import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from functools import partial
from threading import Thread
from typing import NamedTuple

from unslow.look.sampler.readings import Reading
from unslow.look.system import Live, LookError

OPEN_LIMIT_S = 5.0  # A driver that sleeps takes a second or two to wake up; one that takes longer hangs

Opener = Callable[[], list[Reading]]


class Source(NamedTuple):
    """How a source is opened, and whether it asks a driver."""

    open_readings: Callable[[Live, Collection[int], ExitStack], list[Reading]]
    DRIVER: bool = False


def all_sources() -> list[tuple[str, Source]]:
    """Every source by name: drivers last, NVIDIA's the first of them, as everywhere."""
    modules = [importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    found = [
        (name.removeprefix("open_"), Source(function, getattr(module, "DRIVER", False)))
        for module in modules
        for name, function in vars(module).items()
        if name.startswith("open_") and function.__module__ == module.__name__
    ]
    return sorted(found, key=lambda item: (item[1].DRIVER, item[0] != "nvml", item[0]))


def open_sources(
    live: Live, pids: Collection[int], closing: ExitStack, sources: Iterable[tuple[str, Source]] = ()
) -> tuple[list[Reading], dict[str, str]]:
    """All readings that there are, and why the others cannot be read."""
    readings: list[Reading] = []
    unread: dict[str, str] = {}
    for name, source in sources or all_sources():
        opener: Opener = partial(source.open_readings, live, pids, closing)
        try:
            found = within(OPEN_LIMIT_S, opener) if source.DRIVER else opener()
        except LookError as error:
            unread[name] = error.why
        except Exception as bug:  # noqa: BLE001 (one broken source must not cost the others)
            unread[name] = f"{type(bug).__name__}: {bug}"
        else:
            # Each driver counts its GPUs from 0: they get numbers that no other driver uses
            first = max((reading.device.number for reading in readings if reading.device), default=-1) + 1
            for reading in found:
                device = reading.device and reading.device._replace(number=reading.device.number + first)
                readings.append(reading._replace(device=device))
    return readings, unread


def within(limit_s: float, work: Opener) -> list[Reading]:
    """What the work gives; LookError where that takes longer, and the work is left behind."""
    result: list[list[Reading] | Exception] = []

    def run() -> None:
        try:
            result.append(work())
        except Exception as error:  # noqa: BLE001 (handed over to whoever waits)
            result.append(error)

    thread = Thread(target=run, name="unslow opens a driver", daemon=True)
    thread.start()
    thread.join(limit_s)
    if not result:
        raise LookError(f"did not answer within {limit_s:g} s")
    if isinstance(result[0], Exception):
        raise result[0]
    return result[0]
