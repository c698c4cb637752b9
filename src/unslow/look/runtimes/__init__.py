"""One module per runtime: how it is found, read, configured and measured, and the one writer of its commands.

A runtime is a module (or a package) that offers what `Looker` lists and `commands_for`, in a package within its module
`commands`, which is loaded when a command is written. One whose command lines people paste also offers `COMMANDS`, one
with its own way to be asked for a completion `ask`, one that gives the probabilities of a given text `score`. A short
one is one file, of which `tgi` is the one to learn from; a longer one is a package of `server` (how it is found and
read), `api` and `log` (what it answers and writes), `flags` (its settings as facts), `commands` (the one writer) and
`bench` (how it is measured and scored), as many of these as it needs.

Modules are found by presence and never import one another: what two share is below, or in modules with an underscore:
`_gguf_*` for anything that runs a llama-server, `_engine_*` for serving engines. A module that fails to load, or lacks
something, costs only itself.
"""

import importlib
import pkgutil
import re
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import NamedTuple, Protocol, cast

from unslow.facts.commands import Commands
from unslow.facts.knob import Change
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.look.command_writer import NOTHING_AT_HAND, AtHand
from unslow.look.logs.commands import CommandLines
from unslow.look.processes import Process, ProcessSigns, words_of
from unslow.look.system import System


class Looker(Protocol):
    """What a runtime module offers. Every function may raise LookError."""

    NAME: str  # What `Runtime.name` holds for it, such as "vLLM"
    PORTS: tuple[int, ...]  # Where it listens unless it is told otherwise; asked only where something listens there
    RANK: int  # Who is asked first at a URL: 0 answers as no other does, 9 answers as many do
    PROCESSES: ProcessSigns  # How its processes look; `find` is called only where one looks so

    def find(self, processes: Sequence[Process]) -> list[Process]:
        """The processes that this runtime speaks for; children that belong to one of them are left out."""
        ...

    def read(self, process: Process, api_key: str) -> tuple[Subject, ...]:
        """Everything that can be seen of a process: one subject for each model that it has loaded."""
        ...

    def read_url(self, system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
        """The same by a URL alone; None where something else answers there. Reads only: no model is loaded."""
        ...


class Writer(Protocol):
    """The one writer of a runtime's commands, for every verb."""

    def commands_for(self, changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING_AT_HAND) -> Commands:
        """The changes as the lines that a user copies."""
        ...


OFFERED = ("NAME", "PORTS", "RANK", "PROCESSES", "find", "read", "read_url")


class LoadedRuntimes(NamedTuple):
    """The runtimes that can be asked, and why others cannot, by the name of their module."""

    lookers: tuple[Looker, ...]
    broken: dict[str, str]


def names() -> list[str]:
    """The runtimes there are, found by presence."""
    return [info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_")]


@cache
def load_runtimes() -> LoadedRuntimes:
    """Every runtime, in the order in which they are asked at a URL."""
    found = {name: _load(name) for name in names()}
    good = [module for module in found.values() if not isinstance(module, str)]
    broken = {name: why for name, why in found.items() if isinstance(why, str)}
    return LoadedRuntimes(tuple(sorted(good, key=lambda module: (module.RANK, module.NAME))), broken)


def _load(name: str) -> Looker | str:
    try:
        module = importlib.import_module(f"{__name__}.{name}")
    except Exception as bug:  # noqa: BLE001 (one broken module must not cost the others; the snapshot shows it)
        return f"{type(bug).__name__}: {bug}"
    missing = [part for part in OFFERED if not hasattr(module, part)]
    return f"lacks {', '.join(missing)}" if missing else cast("Looker", module)


def lookers() -> tuple[Looker, ...]:
    """Every runtime that can be asked, in the order in which they are asked at a URL."""
    return load_runtimes().lookers


def find_servers(looker: Looker, processes: Sequence[Process]) -> list[Process]:
    """The processes that a runtime speaks for, where any looks like one of its own."""
    names, pattern = looker.PROCESSES
    sign = re.compile(pattern, re.IGNORECASE)
    likely = [process for process in processes if process.name.startswith(names)]
    # the command line is read only where the name does not say it
    seen = any(sign.search(p.name) or any(map(sign.search, words_of(p.command()))) for p in likely)
    return looker.find(processes) if seen else []


def writer_of(looker: Looker) -> Writer:
    """The writer of a runtime's commands: its module `commands`, or the runtime itself where that is one file."""
    module = cast("ModuleType", looker)
    of_package = hasattr(module, "__path__")
    return cast("Writer", importlib.import_module(f"{module.__name__}.commands") if of_package else module)


def looker_named(name: str) -> Looker | None:
    """The module of a runtime by its own name, such as `llama_cpp`; no other is loaded."""
    found = _load(name) if name in names() else ""
    return None if isinstance(found, str) else found


def looker_of(name: str) -> Looker | None:
    """The module of a runtime by the name that its facts carry, such as `llama.cpp` or `embedded llama.cpp`."""
    words = re.sub(r"\W+", "_", name.lower())
    looker = looker_named(next((module for module in names() if words.endswith(module)), ""))
    if looker and name.endswith(looker.NAME):
        return looker
    return next((each for each in lookers() if name.endswith(each.NAME)), None)


@cache
def command_lines() -> dict[str, CommandLines]:
    """How each runtime's command lines look as people paste them, by the name of its module; not all have that."""
    modules = {name: _load(name) for name in names()}
    return {name: module.COMMANDS for name, module in modules.items() if hasattr(module, "COMMANDS")}
