"""Models that lose more by a quantised cache than the usual figures say, and what else is known against it."""

from functools import cache
from typing import Literal

import msgspec

from unslow.catalog import entries


class CacheException(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A warning; where it names architectures, the usual figures do not hold for these."""

    words: str
    source: str
    bits_at_most: float
    """It is about types that spend so many bits on a number, or fewer."""
    architectures: tuple[str, ...] = ()
    """Every one where empty."""
    part: Literal["keys", "either"] = "either"
    kl: dict[str, float] = {}
    """The mean KL divergence of both halves in that type, of the model that fared worst."""


@cache
def cache_exceptions() -> dict[str, CacheException]:
    """Every warning by the stem of its file."""
    return dict(entries("cache_exceptions", CacheException))
