"""Looked-up knowledge as data: one small TOML file for each thing, every number with its source.

Adding a thing is adding a file; nothing here names them.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec
import tomli

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


def entries(folder: str, kind: type[T]) -> Iterator[tuple[str, T]]:
    """Every file of a folder by its stem, in alphabetical order, checked against `kind`."""
    for stem, text in texts(folder).items():
        yield stem, entry(text, kind, f"{folder}/{stem}.toml")


def entry(text: str, kind: type[T], name: str) -> T:
    """The text of one file, checked against `kind`; what is wrong is told with the file's name."""
    try:
        return msgspec.convert(tomli.loads(text), kind, str_keys=True)
    except (msgspec.ValidationError, tomli.TOMLDecodeError) as error:
        error.add_note(f"in {name}")
        raise
