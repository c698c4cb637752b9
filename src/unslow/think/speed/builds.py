"""When a build of llama.cpp was made: backends get faster from year to year."""

import re
from functools import lru_cache

_DATE = re.compile(r"(20\d\d)(?:-(\d\d))?")
_BUILD = re.compile(r"\bb(\d{4,5})\b")
_BUILDS = (
    (1300, 2023.75), (1700, 2024.0), (2300, 2024.15), (3000, 2024.4), (3600, 2024.65), (4200, 2024.9), (4800, 2025.15),
    (5300, 2025.35), (5863, 2025.53), (6500, 2025.7), (7300, 2025.93), (7941, 2026.1), (8382, 2026.25), (9187, 2026.4),
    (10586, 2026.8),
)  # fmt: skip
"""Builds by when they were made: releases as they are dated in the table of measurements itself."""
USUAL_YEAR = 2025.5
"""Where nothing says when a build was made."""


@lru_cache(maxsize=4096)
def year_of(text: str) -> float:
    """When a build was made, in years, by a date or by its number; the usual year where neither is."""
    date, build = _DATE.search(text), _BUILD.search(text)
    if date and date[2]:
        return int(date[1]) + (int(date[2]) - 0.5) / 12
    if build:
        return _between(float(build[1]))
    return int(date[1]) + 0.5 if date else USUAL_YEAR


def is_numbered(text: str) -> bool:
    """Whether it names a build by its number."""
    return bool(_BUILD.search(text))


def _between(build: float) -> float:
    """By the releases before and after it."""
    earlier = [b for b in _BUILDS if b[0] <= build]
    later = [b for b in _BUILDS if b[0] > build]
    if not earlier or not later:
        return (later or earlier)[0 if later else -1][1]
    (low, start), (high, end) = earlier[-1], later[0]
    return start + (end - start) * (build - low) / (high - low)
