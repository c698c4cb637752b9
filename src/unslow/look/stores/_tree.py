"""The files below a folder in one bounded look: names, sizes and times, following links."""

import os
import re
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from unslow.facts.values import Absence
from unslow.look.system import LookError, System

MOST_ENTRIES = 200_000
DEEPEST = 8
_SKIPPED = re.compile(r"\.git|\.locks|\.no_exist|node_modules|__pycache__|lost\+found|(?:datasets|spaces|kernels)--.*")


class Leaf(msgspec.Struct, frozen=True, array_like=True):
    """A file, by its path below the root; `bytes` is -1 where a link leads nowhere."""

    path: str
    bytes: int
    inode: str
    modified_at: str

    @property
    def folder(self) -> str:
        """The folder that it lies in, below the root; empty for the root itself."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Its name in that folder."""
        return self.path.rpartition("/")[2]


class Tree(msgspec.Struct, frozen=True):
    """What lies below a folder."""

    leaves: list[Leaf]
    unreadable: list[str] = []
    cut: bool = False
    """Whether there is more than was looked at."""


def read_tree(system: System, root: str, deepest: int = DEEPEST) -> Tree:
    """Every file below `root`, sorted; LookError where it is no folder that can be read."""
    raw = system.ask(f"tree {root}", lambda: msgspec.to_builtins(_tree(root, deepest)))
    try:
        return msgspec.convert(raw, Tree)
    except msgspec.ValidationError as error:
        raise LookError(f"{root}: the recorded folder does not fit: {error}") from error


def _tree(root: str, deepest: int) -> Tree:
    walk = _Walk()
    try:
        leaves = sorted(walk.below(root, "", deepest), key=lambda leaf: leaf.path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise LookError(f"{root}: not there", Absence.NOT_FOUND) from error
    except PermissionError as error:
        raise LookError(f"{root}: permission denied", Absence.FAILED, "run as the user who owns it") from error
    except (OSError, ValueError) as error:  # ValueError: a null byte
        raise LookError(f"{root}: {getattr(error, 'strerror', None) or error}") from error
    return Tree(leaves, walk.unreadable, walk.left < 0)


class _Walk:
    """Steps into each folder once, however many links lead to it."""

    def __init__(self) -> None:
        self.left = MOST_ENTRIES
        self.unreadable: list[str] = []
        self._seen: set[str] = set()

    def below(self, root: str, path: str, depth: int) -> Iterator[Leaf]:
        folder = f"{root}/{path}" if path else root
        inode = _inode(Path(folder).stat())
        if inode in self._seen:
            return
        self._seen.add(inode)
        inner = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self.left -= 1
                if self.left < 0:
                    return
                below = f"{path}/{entry.name}" if path else entry.name
                if _is_folder(entry):
                    inner.append(below)
                elif leaf := _leaf(entry, below):
                    yield leaf
        for name in inner if depth > 0 else ():
            yield from self._inside(root, name, depth - 1)

    def _inside(self, root: str, path: str, depth: int) -> Iterator[Leaf]:
        if _SKIPPED.fullmatch(path.rpartition("/")[2]):
            return
        try:
            yield from self.below(root, path, depth)
        except OSError as error:
            self.unreadable.append(f"{root}/{path}: {error.strerror or error}")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link into a place that can't be read
        return False


def _leaf(entry: os.DirEntry[str], path: str) -> Leaf | None:
    """The file; None for pipes, devices and names that are no text."""
    try:
        path.encode()
        status = entry.stat()
    except UnicodeEncodeError:
        return None
    except OSError:
        return Leaf(path, -1, "", "") if entry.is_symlink() else None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Leaf(path, status.st_size, _inode(status), _time(status.st_mtime))


def _inode(status: os.stat_result) -> str:
    return f"{status.st_dev}:{status.st_ino}"


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):  # a clock that was off by an age
        return ""
