"""Every fault there is: the FAULTS of each module here that is named after a place, and of each module of lab/real."""

import pkgutil
from importlib import import_module
from itertools import chain

import lab.faults
import lab.real
from lab.faults.fault import Fault
from lab.faults.running import LLAMA_SERVER, Runtime

_PLACES = ("cpu", "gpu")


def places() -> tuple[str, ...]:
    """Where faults are played: a llama-server on a CPU or a GPU, and the other runtimes."""
    return (*_PLACES, *sorted(m.name for m in pkgutil.iter_modules(lab.real.__path__) if not m.name.startswith("_")))


def every_fault() -> tuple[Fault, ...]:
    """Found by presence, in the order of the modules' names; no two have the same name in one place."""
    names = sorted(m.name for m in pkgutil.iter_modules(lab.faults.__path__) if m.name.startswith(_PLACES))
    modules = [*(f"lab.faults.{name}" for name in names), *(f"lab.real.{name}" for name in places()[len(_PLACES) :])]
    return tuple(chain.from_iterable(getattr(import_module(name), "FAULTS", ()) for name in modules))


def faults_of(where: str) -> dict[str, Fault]:
    """By name, those that are played there."""
    return {fault.name: fault for fault in every_fault() if where in fault.where}


def runtime_of(where: str) -> Runtime:
    """How they are played."""
    if where in _PLACES:
        return LLAMA_SERVER
    runtime: Runtime = import_module(f"lab.real.{where}").RUNTIME
    return runtime
