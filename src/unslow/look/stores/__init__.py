"""One file for each tool that keeps models on a machine.

A store is a module with `TOOL`, `places(system, around)` (where it keeps them), `claims(names)` (whether a folder with
these names in it is one of its kind) and `find(system, place)`. Modules are found by presence; each place fails alone.
Finding reads names only; `described` reads a model's header.
"""

import importlib
import os
import pkgutil
from collections.abc import Iterator, Sequence
from typing import Any

from unslow.facts.stored_model import Place, StoredModel
from unslow.look.stores import _plain
from unslow.look.stores._contents import Contents
from unslow.look.stores._described import described
from unslow.look.stores._surroundings import read_surroundings
from unslow.look.system import LookError, System

__all__ = ["Seen", "all_stores", "described", "find_at", "find_everywhere", "read_surroundings"]


class Seen:
    """What was found at each place; a place that two stores share is looked at once."""

    def __init__(self) -> None:
        self.models: list[StoredModel] = []
        self.places: list[Place] = []
        self.notices: list[str] = []
        self._looked: set[str] = set()

    def look(self, system: System, place: str, store: Any) -> None:
        """Find what a store has at a place."""
        place = place.rstrip("/") or "/"
        if _real(system, place) in self._looked:
            return
        self._looked.add(_real(system, place))
        try:
            contents: Contents = store.find(system, place)
        except LookError as error:
            self.places.append(Place(store.TOOL, place, error.why))
            return
        self.places.append(Place(store.TOOL, place))
        known = {(model.path, model.name) for model in self.models}
        self.models += [m for m in contents.models if (m.path, m.name) not in known]
        self.notices += contents.notices


def all_stores() -> Iterator[Any]:
    """Every store's module, in alphabetical order."""
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith("_"):
            yield importlib.import_module(f"{__name__}.{info.name}")


def find_everywhere(system: System, more: Sequence[str] = ()) -> Seen:
    """The models in every store of this machine and in further folders or files, before their headers are read."""
    around, seen = read_surroundings(system), Seen()
    for store in all_stores():
        for place in store.places(system, around):
            seen.look(system, place, store)
    for path in more:
        _look_at(system, path, seen)
    return seen


def find_at(system: System, path: str) -> list[StoredModel]:
    """The models in one folder or file, before their headers are read; LookError where there is no such thing."""
    seen = Seen()
    _look_at(system, path, seen)
    if seen.places and seen.places[0].why and not seen.models:
        raise LookError(seen.places[0].why)
    return seen.models


def _look_at(system: System, path: str, seen: Seen) -> None:
    """A folder as the store that it is, or as a plain one; a file as one of those in its folder."""
    try:
        names = system.list_dir(path)
    except LookError:
        folder, name = os.path.split(path)
        seen.look(system, path, _plain.File(folder or ".", name))
        return
    seen.look(system, path, next((store for store in all_stores() if store.claims(names)), _plain))


def _real(system: System, place: str) -> str:
    try:
        return system.read_link(place)
    except LookError:
        return place
