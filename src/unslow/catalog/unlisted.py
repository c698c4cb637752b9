"""Names that people ask for and that are no well-known model here, with what is to be said of them."""

from functools import cache

import msgspec

from unslow.catalog import entries


class Unlisted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Models of one kind, by how their names begin."""

    names: tuple[str, ...]
    why: str
    """What they are, and why nothing can be said of their memory by name."""
    hint: str


@cache
def unlisted() -> tuple[Unlisted, ...]:
    """Every kind."""
    return tuple(kind for _, kind in entries("unlisted", Unlisted))
