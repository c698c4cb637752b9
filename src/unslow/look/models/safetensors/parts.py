"""Which files of a folder make up one model, by their names alone."""

import re
from collections.abc import Iterable, Sequence

from unslow.look.system import LookError

SUFFIX, INDEX_SUFFIX = ".safetensors", ".safetensors.index.json"
MOST_PARTS = 1024
_PART = re.compile(r"(.+)-(\d{1,6})-of-(\d{1,6})\.safetensors")


def checkpoint_sets(names: Iterable[str]) -> dict[str, list[str]]:
    """The safetensors files of a folder by the stem that they share; parts that are missing are named too."""
    sets: dict[str, list[str]] = {}
    for name in sorted(names):
        if name.endswith(SUFFIX):
            sets.setdefault(stem_of(name), part_names(name))
    return sets


def is_part(name: str) -> bool:
    """Whether the file says of itself that it is one of several."""
    return _PART.fullmatch(name) is not None


def stem_of(name: str) -> str:
    """What the files of one model have in common, and its index too."""
    match = _PART.fullmatch(name)
    return match[1] if match else name.removesuffix(INDEX_SUFFIX).removesuffix(SUFFIX)


def part_names(name: str) -> list[str]:
    """All parts of the model of which `name` is one; the name alone where it is whole."""
    match = _PART.fullmatch(name)
    if not match or not 0 < int(match[2]) <= int(match[3]) <= MOST_PARTS:
        return [name]
    stem, width, count = match[1], len(match[2]), match[3]
    return [f"{stem}-{n:0{width}}-of-{count}{SUFFIX}" for n in range(1, int(count) + 1)]


def main_set(names: Sequence[str]) -> str:
    """The stem of the one model in a folder; LookError where there is none, or several and none is `model`."""
    sets = checkpoint_sets(names)
    indexed = [n.removesuffix(INDEX_SUFFIX) for n in names if n.endswith(INDEX_SUFFIX)]
    if "model" in sets or "model" in indexed:
        return "model"
    if len(indexed) == 1:
        return indexed[0]
    if not sets:
        raise LookError("holds no safetensors files")
    if len(sets) > 1:
        raise LookError(f"holds several models: {', '.join(sorted(sets)[:8])}")
    return next(iter(sets))
