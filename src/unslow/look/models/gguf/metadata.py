"""The keys and values at the start of a GGUF header: short ones are kept, long ones (the vocabulary) stepped over."""

import math
import struct
from typing import NamedTuple

from unslow.facts.blueprint import Value
from unslow.look.models.gguf.window import Window
from unslow.look.system import LookError

LONGEST_KEY_BYTES = 65_535  # the limit that the format's specification sets
LONGEST_VALUE_BYTES = 4096
LONGEST_KEPT_ARRAY = 1024  # one number for each layer, with room to spare

_ALIGNMENT, _DEFAULT_ALIGNMENT = "general.alignment", 32
_UINT32, _STRING, _ARRAY = 4, 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Metadata(NamedTuple):
    """What a header says of its model."""

    values: dict[str, Value]
    lengths: dict[str, int]
    """Of the arrays and long texts that were stepped over."""
    alignment: int
    """Tensors start at multiples of it."""


def read_metadata(window: Window, count: int) -> Metadata:
    """So many keys with their values; LookError where one of them can't be."""
    found = Metadata({}, {}, _DEFAULT_ALIGNMENT)
    seen = set()
    for _ in range(count):
        key, kind = read_name(window, LONGEST_KEY_BYTES, "key"), window.integer("I")
        if not key or key in seen:
            raise LookError(f"has the key {key[:64]!r} twice" if key else "has a key without a name")
        seen.add(key)
        value, length = _read_array(window) if kind == _ARRAY else _read_scalar(window, kind)
        if key == _ALIGNMENT:
            found = found._replace(alignment=_alignment(kind, value))
        if value is None:
            found.lengths[key] = length
        elif not (isinstance(value, float) and not math.isfinite(value)):
            found.values[key] = value
    return found


def read_name(window: Window, longest: int, what: str) -> str:
    """The name of a key or a tensor; LookError where it is not text."""
    length = window.length()
    if length > longest:
        raise LookError(f"has a {what} with a name of {length} bytes; this program reads up to {longest}")
    name = window.kept(length)
    try:
        text = name.decode()
    except UnicodeDecodeError as error:
        raise LookError(f"has a {what} whose name is not text: {name[:64]!r}") from error
    if "\0" in text:  # what C would take for its end
        raise LookError(f"has a {what} with a null byte in its name: {name[:64]!r}")
    return text


def _alignment(kind: int, value: Value | None) -> int:
    if kind != _UINT32 or not isinstance(value, int) or value.bit_count() != 1:
        raise LookError(f"has the alignment {str(value)[:64]!r}, which is not a power of two of 32 bits")
    return value


def _read_scalar(window: Window, kind: int) -> tuple[str | float | None, int]:
    """A number or a short text; of a long text, such as a chat template, the length."""
    if kind in _NUMBERS:
        return window.numbers(_NUMBERS[kind])[0], 0
    if kind != _STRING:
        raise LookError(f"has a value of the unknown type {kind}")
    length = window.length()
    if length <= LONGEST_VALUE_BYTES:
        return window.kept(length).decode("utf-8", "replace"), length
    window.skip(length)
    return None, length


def _read_array(window: Window) -> tuple[list[int] | None, int]:
    """A short array of whole numbers or flags; of any other, the length."""
    kind, count = window.integer("I"), window.length()
    if kind == _STRING:
        window.skip_strings(count)
    elif kind not in _NUMBERS:  # llama.cpp reads no arrays within arrays either
        raise LookError(f"has an array of the type {kind}" + " (arrays within an array)" * (kind == _ARRAY))
    elif count <= LONGEST_KEPT_ARRAY and _NUMBERS[kind] not in "fd":
        return window.kept_integers(_NUMBERS[kind], count), count
    else:
        window.skip(count * struct.calcsize("<" + _NUMBERS[kind]))
    return None, count
