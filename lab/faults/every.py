"""Every fault there is: the FAULTS of each module here whose name starts with where they are played."""

import pkgutil
from importlib import import_module
from itertools import chain

import lab.faults
from lab.faults.fault import Fault, Where

_PLACES: tuple[Where, ...] = ("cpu", "gpu")


def every_fault() -> tuple[Fault, ...]:
    """Found by presence, in the order of the modules' names; no two have the same name in one place."""
    names = sorted(m.name for m in pkgutil.iter_modules(lab.faults.__path__) if m.name.startswith(_PLACES))
    return tuple(chain.from_iterable(getattr(import_module(f"lab.faults.{name}"), "FAULTS", ()) for name in names))


def faults_of(where: Where) -> dict[str, Fault]:
    """By name, those that are played there."""
    return {fault.name: fault for fault in every_fault() if where in fault.where}
