"""Versions as numbers, as far as they can be compared."""

import re

_BUILD = re.compile(r"\bb?(\d{4,6})(?:\b|-)")
NEWEST = 10**9


def build_number(version: str) -> int:
    """The build of a llama.cpp version such as `b3556` or `b9999-0c1e570`; of any other, newer than all."""
    found = _BUILD.match(version.strip())
    return int(found[1]) if found else NEWEST


def dotted(version: str) -> tuple[int, ...]:
    """The numbers of a version such as `v0.9.2`; none where it is not written so."""
    found = re.search(r"\d+(?:\.\d+)+", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
