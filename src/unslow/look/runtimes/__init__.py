"""One module for each runtime: how it is found, how its settings are read, how it spells each knob.

A runtime is a module (or a package) that offers what `Looker` lists. Modules are found by presence and never import
one another: what two share is a fact, the catalogue, `look.llama_server`, `look.openai_api` or the door.
"""

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache
from typing import Protocol, cast

from unslow.facts.knob import Change
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.look.processes import Process
from unslow.look.system import System


class Looker(Protocol):
    """What a runtime module offers. Everything but `spell` may raise LookError."""

    NAME: str
    """What `Runtime.name` holds for it, such as "vLLM"."""
    PORTS: tuple[int, ...]
    """Where it listens unless it is told otherwise; asked only where something listens there."""
    RANK: int
    """Who is asked first at a URL: 0 answers as nobody else does, 9 answers as many do."""

    def find(self, processes: Sequence[Process]) -> list[Process]:
        """The processes that this runtime speaks for; children that belong to one of them are left out."""
        ...

    def read(self, process: Process, api_key: str) -> tuple[Subject, ...]:
        """Everything that can be seen of a process: one subject for each model that it has loaded."""
        ...

    def read_url(self, system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
        """The same by a URL alone; None where something else answers there. Reads only: no model is loaded."""
        ...

    def spell(self, change: Change, runtime: Runtime) -> list[str]:
        """The change in this runtime's own words: commands, flags, environment; empty where it has none."""
        ...


def names() -> list[str]:
    """The runtimes there are, found by presence."""
    return [info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_")]


@cache
def lookers() -> tuple[Looker, ...]:
    """Every runtime, in the order in which they are asked at a URL."""
    modules = [cast("Looker", importlib.import_module(f"{__name__}.{name}")) for name in names()]
    return tuple(sorted(modules, key=lambda module: (module.RANK, module.NAME)))


def looker_of(name: str) -> Looker | None:
    """The module of a runtime by the name that its facts carry, such as `llama.cpp` or `embedded llama.cpp`."""
    return next((m for m in lookers() if name.endswith(m.NAME)), None)
