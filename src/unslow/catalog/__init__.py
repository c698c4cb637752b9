"""Looked-up knowledge as data: one small TOML file for each thing, every number with its source.

Adding a thing is adding a file; nothing here names them.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import tomli

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_HERE = Path(__file__).parent


def subfolders(folder: str) -> list[str]:
    """The folders within a folder, such as the vendors among the devices, in alphabetical order."""
    return sorted(f"{folder}/{f.name}" for f in (_HERE / folder).iterdir() if f.is_dir())


@cache
def texts(folder: str) -> dict[str, str]:
    """The text of every file of a folder by its stem, in alphabetical order."""
    found = (f for f in (_HERE / folder).iterdir() if f.name.endswith(".toml"))
    return {f.name.removesuffix(".toml"): f.read_text("utf-8") for f in sorted(found, key=lambda f: f.name)}


def _cache_typed(function: F) -> F:
    """`functools.cache`, with the type of a generic function kept."""
    return cast("F", cache(function))


@_cache_typed
def entries(folder: str, kind: type[T]) -> dict[str, T]:
    """Every file of a folder by its stem, in alphabetical order, checked against `kind`."""
    return {stem: entry(folder, stem, kind) for stem in texts(folder)}


@_cache_typed
def entry(folder: str, stem: str, kind: type[T]) -> T:
    """One file of a folder, checked against `kind`; what is wrong is told with the file's name."""
    try:
        return msgspec.convert(tomli.loads(texts(folder)[stem]), kind, str_keys=True)
    except (msgspec.ValidationError, tomli.TOMLDecodeError) as error:
        error.add_note(f"in {folder}/{stem}.toml")
        raise
