"""Versions as numbers, as far as they can be compared."""

import re

_BUILD = re.compile(r"b?(\d{4,6})(?!-\d{1,2}\b)(?:[-+ (]|$)")
"""Alone or before a commit: `2024-05-01` is a day, and `2024.5` another way to count. One with fewer digits, as of a
shallow clone (`b1-abc`), counts only the commits that were there: models of GGUF need b1000 or later."""
NEWEST = 10**9


def build_number(version: str) -> int:
    """The build of a llama.cpp version such as `b3556` or `b9999-0c1e570`; of any other, newer than all."""
    found = _BUILD.match(version.strip())
    return int(found[1]) if found else NEWEST


def dotted(version: str) -> tuple[int, ...]:
    """The numbers of a version such as `v0.9.2`; none where it is not written so."""
    found = re.search(r"\d+(?:\.\d+)+", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def is_older(one: str, other: str) -> bool:
    """Whether one version is surely older than another: both are builds, or both are dotted numbers."""
    builds, numbers = (build_number(one), build_number(other)), (dotted(one), dotted(other))
    if NEWEST not in builds:
        return builds[0] < builds[1]
    return all(numbers) and numbers[0] < numbers[1]
