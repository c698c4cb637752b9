"""Tensors that no mix touches: kept as the unquantised file has them, because they are small or matter too much."""

from functools import cache

import msgspec

from unslow.catalog import entries


class Sensitive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group of tensors by parts of their names."""

    why: str
    source: str
    architectures: tuple[str, ...] = ()
    """Every one where empty."""
    kept: tuple[str, ...] = ()
    """Not quantised."""
    kept_names: tuple[str, ...] = ()
    """The same, of whole names."""
    f32: tuple[str, ...] = ()
    """Of full precision in a file of 16 bits."""
    eight_bits: tuple[str, ...] = ()
    """Q8_0 in every mix of quantised types."""
    stored: str = ""
    """The type of the kept ones, where the model is published in a quantised one."""


@cache
def sensitive(architecture: str) -> tuple[Sensitive, ...]:
    """The groups that an architecture has to do with."""
    return tuple(g for g in _groups() if not g.architectures or architecture in g.architectures)


@cache
def _groups() -> tuple[Sensitive, ...]:
    return tuple(group for _, group in entries("sensitive", Sensitive))
