"""Texts of our own that every server is asked about, so that two can be held against each other."""

from functools import cache

import msgspec

from unslow.catalog import entry, texts

_FOLDER = "samples"


class _Reading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str


class _Openings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    openings: tuple[str, ...]


@cache
def reading() -> str:
    """A text of several kinds, of which a server is asked what it expects next."""
    return entry(texts(_FOLDER)["reading"], _Reading, "samples/reading.toml").text.strip()


@cache
def openings() -> tuple[str, ...]:
    """Beginnings that a server is asked to continue."""
    return entry(texts(_FOLDER)["openings"], _Openings, "samples/openings.toml").openings
