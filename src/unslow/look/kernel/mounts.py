"""The mount table of a process: /proc/PID/mountinfo, as described in proc_pid_mountinfo(5)."""

import re
from collections.abc import Iterable
from typing import NamedTuple

MOUNT_TABLE = "/proc/self/mountinfo"
MOUNT_TABLE_LIMIT_BYTES = 8 * 1024**2  # a host with thousands of containers has thousands of mounts
_LEAST_FIELDS, _LEAST_FIELDS_AFTER_DASH = 6, 3
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """One line: the folder `root` of a filesystem, visible at `point`."""

    device: str
    root: str
    point: str
    filesystem: str
    source: str
    options: str

    def holds(self, path: str) -> bool:
        """Whether the path is the mount point or lies below it."""
        return path == self.point or path.startswith(self.point.rstrip("/") + "/")


def parse_mounts(text: str) -> list[Mount]:
    """The mounts in the order in which they were made; lines of another form are passed over."""
    return [mount for line in text.splitlines() if (mount := _parse_line(line))]


def _parse_line(line: str) -> Mount | None:
    before, dash, after = line.partition(" - ")
    left, right = before.split(), after.split()
    if not dash or len(left) < _LEAST_FIELDS or len(right) < _LEAST_FIELDS_AFTER_DASH:
        return None
    device, root, point = left[2:5]
    filesystem, source, options = right[:3]
    return Mount(device, _plain(root), _plain(point), filesystem, _plain(source), options)


def _plain(text: str) -> str:
    """The kernel writes blanks and backslashes in octal."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount under a path: the deepest one, and of several on one point the last, which hides the others."""
    best = None
    for mount in mounts:
        if mount.holds(path) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best
