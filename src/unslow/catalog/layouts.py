"""Which tensors a model of an architecture consists of: one TOML for each architecture, over the numbers of a shape.

An entry names the shared parts it is made of, and adds, changes or leaves out what is its own. A shape is a text of
expressions (`width, heads * key_length`), the length of a row first, as GGUF has it. `{}` in a tensor's name stands
for the number of its layer.
"""

from collections.abc import Iterator
from functools import cache

import msgspec

from unslow.catalog import entries

Setting = bool | int | float | str | list[int]


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tensors that are there together: once, or in each layer where `when` holds."""

    tensors: dict[str, str]
    when: str = ""


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an architecture, or a part that several share, consists of."""

    source: str = ""
    """The file of llama.cpp that was read."""
    parts: tuple[str, ...] = ()
    """Shared parts that come before its own; of two that say the same thing, the later one counts."""
    without: tuple[str, ...] = ()
    """Tensors of its parts that it lacks."""
    numbers: dict[str, str] = {}
    """Numbers worked out from those of the shape, where the shape does not state them itself."""
    metadata: dict[str, Setting] = {}
    """By the key after the architecture's name; a text is an expression, anything else the value itself."""
    groups: tuple[Group, ...] = ()


@cache
def layouts() -> dict[str, Layout]:
    """Every architecture's layout by the name that GGUF has for it, with its parts put in."""
    parts = dict(entries("layouts/parts", Layout))
    return {name: _whole(layout, parts) for name, layout in entries("layouts", Layout)}


def _whole(layout: Layout, parts: dict[str, Layout]) -> Layout:
    """The layout with everything that its parts say and it does not leave out or change."""
    pieces = [*_pieces(layout, parts)]
    return msgspec.structs.replace(
        layout,
        parts=(),
        without=(),
        numbers={name: text for piece in pieces for name, text in piece.numbers.items()},
        metadata={key: setting for piece in pieces for key, setting in piece.metadata.items()},
        groups=tuple(_latest(pieces)),
    )


def _pieces(layout: Layout, parts: dict[str, Layout]) -> Iterator[Layout]:
    for name in layout.parts:
        yield from _pieces(parts[name], parts)
    yield layout


def _latest(pieces: list[Layout]) -> Iterator[Group]:
    """The groups of all pieces, each tensor only where the last piece that names it has it."""
    last = {name: n for n, piece in enumerate(pieces) for group in piece.groups for name in group.tensors}
    gone = {name for piece in pieces for name in piece.without}
    for n, piece in enumerate(pieces):
        for group in piece.groups:
            kept = {name: shape for name, shape in group.tensors.items() if last[name] == n and name not in gone}
            if kept:
                yield Group(kept, group.when)
