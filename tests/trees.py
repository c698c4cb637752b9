"""A stand-in for /sys and /proc: the folders of a door whose files are known by their paths."""

from collections.abc import Mapping

from doubles import FakeSystem

from unslow.look.system import LookError


def tree(files: Mapping[str, str | LookError], **others) -> FakeSystem:
    """A system with these files, and every folder on the way to them."""
    folders: dict[str, set[str]] = {}
    for path in files:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            folders.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    return FakeSystem(files=dict(files), folders={path: sorted(names) for path, names in folders.items()}, **others)
