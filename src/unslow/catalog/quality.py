"""The quality of answers: what quantising costs as published, and the texts by which two servers are compared."""

from functools import cache, partial
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from unslow.catalog import entries, entry

Part: TypeAlias = Literal["weights", "keys", "values", "cache"]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One measurement; either weights or the cache are quantised, and the other is as the table says."""

    quant: str = ""  # Of the weights: a mix of llama.cpp or a packing by its name
    keys: str = ""
    values: str = ""  # Types of the cache; empty for the half that stayed in 16 bits
    ppl: float | None = None
    increase: float | None = None  # Of the perplexity, as a share, where the source gives that alone
    kl: float | None = None  # The mean over all tokens, in nats, against the model in 16 bits
    kl_999: float | None = None  # What one token in a thousand exceeds
    matrix: bool = False  # Whether an importance matrix was used
    error: float | None = None  # The standard error of the increase, as a share, where the source gives one
    rotated: bool = False
    """Whether keys and values were rotated before they were stored, which llama.cpp does since b8624."""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Measurements of one model by one hand."""

    source: str
    date: str
    model: str
    architecture: str
    parameters: int  # As the name of the model says; 0 where that is not known
    text: str
    context: int = 0  # Tokens that a piece of the text has; 0 where that is not said
    per: Literal["token", "word"] = "token"  # A word has more than a token, so that increases for each word are larger
    weights: str = ""  # Their quant while the cache was measured
    ppl_full: float | None = None  # In 16 bits; None where only shares were published
    only_for: tuple[str, ...] = ()  # Architectures that it applies to; all where empty
    why_only: str = ""
    older: bool = False
    """A model of before 2024, which loses less than those of today (llama.cpp pull 6936): it speaks for quants that
    no newer one was measured in, and for the order of quants."""
    own: bool = False
    """Measured by this project (lab/quality.py): it counts for models of this architecture and size alone, and there
    before what others published of models like it."""
    rows: tuple[Row, ...]


class Figure(NamedTuple):
    """One measurement with the table that it stands in."""

    table: Table
    row: Row

    @property
    def part(self) -> Part:
        """What was quantised; `cache` is both halves."""
        if self.row.quant:
            return "weights"
        if self.row.keys and self.row.values:
            return "cache"
        return "keys" if self.row.keys else "values"

    @property
    def increase(self) -> float | None:
        """Of the perplexity, as a share; what came out below nothing is noise, and nothing."""
        row, full = self.row, self.table.ppl_full
        measured = row.ppl / full - 1 if row.ppl is not None and full else row.increase
        return None if measured is None else max(0.0, measured)

    @property
    def kl(self) -> float | None:
        return self.row.kl


tables = partial(entries, "quality", Table)  # Every table by the stem of its file


@cache
def figures() -> tuple[Figure, ...]:
    """Every measurement."""
    return tuple(Figure(table, row) for table in tables().values() for row in table.rows)


class CacheException(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A warning; where it names architectures, the usual figures do not hold for these."""

    words: str
    source: str
    bits_at_most: float  # It applies to types with at most this many bits per number
    architectures: tuple[str, ...] = ()  # Every one where empty
    part: Literal["keys", "either"] = "either"
    kl: dict[str, float] = {}  # The mean KL divergence of both halves in that type, of the model that fared worst


cache_exceptions = partial(entries, "cache_exceptions", CacheException)  # Every warning by the stem of its file


def sample_text() -> str:
    """A text of several kinds, of which a server is asked what it expects next."""
    return entry("samples", "reading", dict[str, str])["text"].strip()


def sample_openings() -> tuple[str, ...]:
    """Beginnings that a server is asked to continue."""
    return entry("samples", "openings", dict[str, tuple[str, ...]])["openings"]
