"""Every measurement that a diagnosis can make: one file each, with what it would tell and what it asks of the server.

The file name is its name, and that of its trial in `unslow.look.bench.trials`; `MEASUREMENT` is found by presence.
"""

import importlib
import pkgutil
from functools import cache

from unslow.think.measuring.catalogue._here import context_of
from unslow.think.measuring.measurement import Measurement

__all__ = ["HOST", "SPEED", "TRAFFIC", "context_of", "measurements"]

SPEED, TRAFFIC, HOST = "speed", "traffic", "host"
"""Those that all else is judged by."""


@cache
def measurements() -> dict[str, Measurement]:
    """All of them by name, in alphabetical order."""
    names = (info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))
    return {name: importlib.import_module(f"{__name__}.{name}").MEASUREMENT for name in names}
