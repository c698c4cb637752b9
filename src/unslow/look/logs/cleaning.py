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
_BLANKS = re.compile(r"[ \t]{201,}")
"""More of them in a row than any table has; patterns that begin or end with blanks would try each of them."""
_LONG_BLANK = " " * 200
_LOOKED_AT = 1024
TEXT_LOOKED_AT = 65_536
_NEVER_IN_TEXT = bytes(code for code in range(1, 32) if code not in b"\a\b\t\n\v\f\r\x1b") + b"\x7f"
_MOST_OF_THEM = 0.04  # of random bytes a tenth, of programs, pictures and model files more; of logs next to none
_SIXTEEN_BITS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def clean_line(data: bytes) -> str:
    """A line without colours and control characters; what is not UTF-8 becomes a replacement mark."""
    line = data.decode("utf-8", "replace").rstrip()
    if _LONG_BLANK in line:
        line = _BLANKS.sub(_LONG_BLANK, line)
    if line.isascii() and line.isprintable():
        return line
    return _CONTROL.sub("", _ESCAPE.sub("", line))


def is_text(start: bytes) -> bool:
    """Whether bytes are text in any encoding; holes of noughts, as rotation leaves them in logs, do not count."""
    start = start[:TEXT_LOOKED_AT]
    if encoding := _encoding(start):
        start = start.decode(encoding, "replace").encode("utf-8", "replace")
    written = len(start) - start.count(0)
    strange = len(start) - len(start.translate(None, _NEVER_IN_TEXT))
    return strange <= _MOST_OF_THEM * written or strange == 1


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
