"""Steps over lists of strings, such as a vocabulary with its merges, a few hundred thousand at a time.

A string is its length and its bytes, so each tells where the next one is, and all have to be visited. Short ones are
visited thirty-two at a time by a regular expression, which takes half the time of a loop in Python.
"""

import re
import struct
from functools import cache

BLOCK = 32
_SHORT = 48  # bytes; longer ones are rare, and every length more takes the expression longer to compile


def stepped(length: struct.Struct, data: bytes, at: int, count: int) -> tuple[int, int]:
    """How many of the strings from `at` on have their length inside the data, and where the next one starts."""
    done = 0
    while count - done >= BLOCK and at < len(data):
        if found := _block(length.format).match(data, at):
            at, done = found.end(), done + BLOCK
            continue
        few, at = _stepped_singly(length, data, at, BLOCK)
        done += few
        if few < BLOCK:
            return done, at
    few, at = _stepped_singly(length, data, at, count - done)
    return done + few, at


def _stepped_singly(length: struct.Struct, data: bytes, at: int, count: int) -> tuple[int, int]:
    unpack, size, done = length.unpack_from, length.size, 0
    try:
        for done in range(count):  # noqa: B007 (how far it came is the result)
            at += size + unpack(data, at)[0]
    except (struct.error, OverflowError):  # past the data, or so far past it that no index can say so
        return done, at
    return count, at


@cache
def _block(form: str) -> re.Pattern[bytes]:
    """A block of short strings: a 3, three or seven zeros, three bytes of any kind; or a 4, and so on."""
    zeros = re.escape(bytes(struct.calcsize(form) - 1))
    before, after = (b"", zeros) if form.startswith("<") else (zeros, b"")
    commonest_first = sorted(range(_SHORT), key=lambda n: abs(n - 8))
    strings = (re.escape(bytes([n])) + after + b".{%d}+" % n for n in commonest_first)
    return re.compile(b"(?s)(?:%b(?:%b)){%d}+" % (before, b"|".join(strings), BLOCK))
