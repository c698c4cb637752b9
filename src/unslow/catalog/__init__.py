"""Looked-up knowledge as data: one small TOML file for each thing, every number with its source.

Adding a thing is adding a file; nothing here names them.
"""

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import TypeVar

import msgspec

T = TypeVar("T")


def subfolders(folder: str) -> list[str]:
    """The folders within a folder, such as the vendors among the devices, in alphabetical order."""
    return sorted(f"{folder}/{f.name}" for f in files(__name__).joinpath(folder).iterdir() if f.is_dir())


def entries(folder: str, kind: type[T]) -> Iterator[tuple[str, T]]:
    """Every file of a folder by its stem, in alphabetical order, checked against `kind`."""
    found = (f for f in files(__name__).joinpath(folder).iterdir() if f.name.endswith(".toml"))
    for file in sorted(found, key=lambda f: f.name):
        try:
            table = tomllib.loads(file.read_text("utf-8"))
            yield file.name.removesuffix(".toml"), msgspec.convert(table, kind, str_keys=True)
        except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
            error.add_note(f"in {folder}/{file.name}")
            raise
