"""What a look into a store gives."""

from typing import NamedTuple

from unslow.facts.stored_model import StoredModel
from unslow.look.stores._tree import MOST_ENTRIES, Tree


class Contents(NamedTuple):
    """The models that a place holds, before their headers are read, and what else is to be said of it."""

    models: list[StoredModel]
    notices: list[str]


def tree_notices(place: str, tree: Tree) -> list[str]:
    """What could not be seen below a place."""
    cut = [f"{place} has more than {MOST_ENTRIES} files; the rest was not looked at"] if tree.cut else []
    return cut + [f"not looked into: {path}" for path in tree.unreadable]
