"""Which tensors stay as they are, and how a file that is not quantised stores them."""

import re
from functools import cache, lru_cache
from typing import Literal

from unslow.catalog.sensitive import sensitive

WIDE = ("F32", "BF16", "F16")
_MATRIX = 2  # dimensions


@lru_cache(maxsize=8192)  # the same tensors come back for each mix that is tried
def is_kept(architecture: str, name: str, shape: tuple[int, ...]) -> bool:
    """Whether llama-quantize leaves a tensor alone."""
    if dimensions(shape) < _MATRIX or not name.endswith("weight"):
        return True
    return bool(_parts(architecture, "kept").search(name)) or name in _kept_names(architecture)


def is_eight_bits(architecture: str, name: str) -> bool:
    """Whether an architecture wants Q8_0 here in every mix of quantised types."""
    return bool(_parts(architecture, "eight_bits").search(name))


def stored_type(architecture: str, name: str, shape: tuple[int, ...], wide: str) -> str:
    """The type of a tensor in a file that is not quantised, whose matrices are of the type `wide`."""
    for group in sensitive(architecture):
        if group.stored and any(part in name for part in group.kept):
            return group.stored
    if dimensions(shape) < _MATRIX or not name.endswith(".weight"):
        return "F32"
    return "F32" if _parts(architecture, "f32").search(name) else wide


def dimensions(shape: tuple[int, ...]) -> int:
    """The number of dimensions, as ggml counts them: a trailing 1 is none."""
    count = len(shape)
    while count > 1 and shape[count - 1] <= 1:
        count -= 1
    return count


@cache
def _parts(architecture: str, kind: Literal["kept", "eight_bits", "f32"]) -> re.Pattern[str]:
    """What a name of that kind has in it; where there is nothing of the kind, no name does."""
    parts = [re.escape(part) for group in sensitive(architecture) for part in getattr(group, kind)]
    return re.compile("|".join(parts) or r"(?!)")


@cache
def _kept_names(architecture: str) -> frozenset[str]:
    return frozenset(name for group in sensitive(architecture) for name in group.kept_names)
