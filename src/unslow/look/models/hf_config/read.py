"""Reads a config and keeps what matters of it: a stranger wrote it, so size, depth and lengths are bounded."""

import json
from typing import Any

from unslow.facts.values import Absence
from unslow.look.system import LookError, System

Config = dict[str, Any]

MOST_CONFIG_BYTES = 2 * 1024**2  # with one entry for each layer of a pruned model, some have a fifth of it
DEEPEST = 6
LONGEST_LIST = 1024
LONGEST_TEXT = 256
MOST_KEYS = 2048
LARGEST_NUMBER = 2**53
_LISTS_OF_NAMES = ("ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules")  # of thousands of modules


def read_config(system: System, folder: str, name: str = "config.json") -> Config:
    """The config in a folder, trimmed; empty where there is none."""
    path = f"{folder}/{name}"
    try:
        data = system.read_bytes(path, MOST_CONFIG_BYTES)
    except LookError as error:
        if error.absence is Absence.NOT_FOUND:
            return {}
        raise
    return parse_config(data, path)


def parse_config(data: bytes, source: str) -> Config:
    """The JSON object in `data`, trimmed; LookError where it is anything else."""
    try:
        value = json.loads(data, parse_constant=lambda _: None)  # Python writes Infinity, which JSON does not have
    except (ValueError, RecursionError) as error:
        raise LookError(f"{source}: is not JSON: {str(error)[:80]}") from error
    if not isinstance(value, dict):
        raise LookError(f"{source}: is not a JSON object")
    return _trimmed_object(value, DEEPEST)


def _trimmed_object(value: dict[str, Any], depth: int) -> Config:
    kept = [(key, v) for key, v in value.items() if key not in _LISTS_OF_NAMES and len(key) <= LONGEST_TEXT]
    trimmed = ((key, _trimmed(v, depth - 1)) for key, v in kept[:MOST_KEYS])
    return {key: v for key, v in trimmed if v is not ...}


def _trimmed(value: Any, depth: int) -> Any:
    """The value without what nobody needs; an ellipsis where that is all of it."""
    match value:
        case None | bool():
            return value
        case int() | float():
            return value if abs(value) <= LARGEST_NUMBER else ...
        case str():
            return value if len(value) <= LONGEST_TEXT else ...
        case dict() if depth > 0:
            return _trimmed_object(value, depth)
        case list() if depth > 0 and len(value) <= LONGEST_LIST:
            items = [_trimmed(v, depth - 1) for v in value]
            return ... if ... in items else items
        case _:
            return ...
