"""One file for each thing that can be varied; found by presence, the file name is what `--sweep` takes.

A module offers `AXIS` (what the facts call it), `OWN_SERVER` and `sweep`. With `OWN_SERVER` false,
`sweep(bencher, limits)` asks a server that runs already. With it true, `sweep(own, limits)` starts a server anew for
each value, because what it varies is set at the start; `own` is `unslow.commands.bench.server.Own`.
"""

import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from unslow.commands.bench.bencher import Bencher
    from unslow.commands.bench.server import Own


class Limits(NamedTuple):
    """How far a sweep may go."""

    values: tuple[float, ...] = ()  # The values to try; empty where the sweep chooses
    tokens: int = 128
    repeats: int = 3
    seconds: float = 600.0  # About how long it may take; what is clear before needs less


def until_stopped(asks: "Bencher | Own", measure: Callable[[], str]) -> str:
    """Why measuring ended before its time; what was measured until Ctrl-C is judged as well."""
    try:
        return measure()
    except KeyboardInterrupt:
        asks.interrupted = True
        return "stopped by the user"


def names() -> list[str]:
    """The sweeps there are."""
    return [info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_")]


def module_of(name: str) -> ModuleType:
    """The module of a sweep; not called `load`, for the sweep of that name becomes an attribute of this package."""
    return importlib.import_module(f"{__name__}.{name}")
