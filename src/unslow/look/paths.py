"""Paths of any system: what is absolute, and the name at the end."""

import re

_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\[^\\/]")
_SEPARATOR = re.compile(r"[\\/]")


def is_absolute(path: str) -> bool:
    """Whether a path starts at a root, of Unix or of Windows."""
    return path.startswith("/") or _DRIVE.match(path) is not None


def name_of(path: str) -> str:
    """The last part of a path."""
    return _SEPARATOR.split(path.rstrip("\\/"))[-1]
