"""Bytes of unknown origin as lines that are safe to match and to show."""

import codecs
import re
from collections.abc import Iterable, Iterator

# CSI sequences, strings that end at a bell or a backslash escape (titles, links), and two-byte escapes
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-9;:?<=>!\"' ]{0,64}[@-~]|[\]PX^_][^\x07\x1b]{0,2048}(?:\x07|\x1b\\)?|[ -/]{0,4}[0-~])"
)
# what is left of control characters, and the marks that turn the direction of text around
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_LOOKED_AT = 1024
_SIXTEEN_BITS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def clean_line(data: bytes) -> str:
    """A line without colours and control characters; what is not UTF-8 becomes a replacement mark."""
    line = data.decode("utf-8", "replace").rstrip()
    if line.isascii() and line.isprintable():
        return line
    return _CONTROL.sub("", _ESCAPE.sub("", line))


def in_utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same text in UTF-8: Windows redirects output in UTF-16."""
    waiting = iter(chunks)
    first = b""
    for chunk in waiting:
        first += chunk
        if len(first) >= _LOOKED_AT:
            break
    encoding = _encoding(first)
    if not encoding:
        yield first
        yield from waiting
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(first).encode("utf-8", "replace")
    for chunk in waiting:
        yield decoder.decode(chunk).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _encoding(start: bytes) -> str:
    """The 16-bit encoding of a text by its mark, or by every second byte being nought; empty for any other."""
    if mark := _SIXTEEN_BITS.get(start[:2]):
        return mark
    low, high = start[1:_LOOKED_AT:2], start[0:_LOOKED_AT:2]
    if len(start) < 16:  # noqa: PLR2004 (too short to tell)
        return ""
    if low.count(0) > len(low) // 2 and not high.count(0):
        return "utf-16-le"
    return "utf-16-be" if high.count(0) > len(high) // 2 and not low.count(0) else ""
