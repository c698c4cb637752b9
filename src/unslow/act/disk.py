"""The one door to the disk for whoever writes: each call that changes something is told of before it is made.

What is told of it may count the calls, or stop them: that is how every way to die in the middle can be tried.
"""

import contextlib
import errno
import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterator

import msgspec

LARGEST_BYTES = 1024**2
"""Of a file that is edited: units, compose files and scripts are a few kB; anything larger is something else."""
_PLAIN_FAILURES = (errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.EINVAL)
"""What a file system says to an attribute that it does not keep, or that only root may set."""

if sys.platform == "win32":
    OPEN_FLAGS, _NONBLOCK = os.O_BINARY, 0
else:
    OPEN_FLAGS, _NONBLOCK = os.O_NOFOLLOW, os.O_NONBLOCK
"""A link that somebody put in a file's place is not followed; Windows would change the ends of lines."""


class Looks(msgspec.Struct, frozen=True, kw_only=True):
    """What a file has besides its bytes; owner and time are None for a new file, which gets its own."""

    mode: int
    owner: int | None = None
    group: int | None = None
    modified_ns: int | None = None
    attributes: dict[str, bytes] = msgspec.field(default_factory=dict)


class Disk:
    """Writes files whole and on the disk, or not at all; OSError where it can't."""

    def __init__(self, before: Callable[[str, str], None] | None = None) -> None:
        self._before = before

    def step(self, what: str, path: str) -> None:
        if self._before:
            self._before(what, path)

    def make_folder(self, path: str, mode: int) -> None:
        """A folder that was not there, and its name on the disk."""
        self.step("mkdir", path)
        os.mkdir(path, mode)
        self.sync(os.path.dirname(path))

    def write_new(self, path: str, data: bytes, looks: Looks) -> None:
        """A file that was not there, with all its bytes on the disk; none is left where that fails."""
        self.step("open", path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN_FLAGS
        descriptor = os.open(path, flags, 0o600)  # whoever may not read the original shall not read this either
        try:
            try:
                half = len(data) // 2  # so that a file of which only a part was written is among what can be tried
                for part in (data[:half], data[half:]):
                    self.step("write", path)
                    left = memoryview(part)
                    while left:
                        left = left[os.write(descriptor, left) :]
                self._dress(descriptor, path, looks)
                self.step("fsync", path)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except BaseException as error:
            with contextlib.suppress(OSError):
                self.step("unlink", path)
                os.unlink(path)
            if isinstance(error, OSError) and error.filename is None:
                error.filename = path  # which of the disks is full
            raise

    def _dress(self, descriptor: int, path: str, looks: Looks) -> None:
        if sys.platform == "win32":  # files are changed by nobody there: `unslow.act.changes`
            return
        made = os.fstat(descriptor)
        owner, group = made.st_uid, made.st_gid
        wanted = (owner if looks.owner is None else looks.owner, group if looks.group is None else looks.group)
        if wanted != (owner, group):
            self.step("chown", path)
            os.fchown(descriptor, *wanted)
        self.step("chmod", path)
        os.fchmod(descriptor, looks.mode)
        if sys.platform == "linux":
            for name, value in looks.attributes.items():
                self.step("setxattr", path)
                with _plain_failures_allowed():
                    os.setxattr(descriptor, name, value)
        if looks.modified_ns is not None:
            self.step("utime", path)
            os.utime(descriptor, ns=(looks.modified_ns, looks.modified_ns))

    def replace(self, source: str, target: str) -> None:
        """One file in the place of another, at once."""
        self.step("rename", target)
        os.replace(source, target)
        self.sync(os.path.dirname(target))

    def remove(self, path: str) -> None:
        """No such file any more, whether there was one or not."""
        if not os.path.lexists(path):
            return
        self.step("unlink", path)
        os.unlink(path)
        self.sync(os.path.dirname(path))

    def remove_folder(self, path: str) -> None:
        """No such folder any more, unless somebody put something into it."""
        if not os.path.isdir(path) or os.listdir(path):
            return
        self.step("rmdir", path)
        os.rmdir(path)
        self.sync(os.path.dirname(path))

    def sync(self, folder: str) -> None:
        """The names in a folder on the disk."""
        if sys.platform == "win32":  # where a folder can't be opened
            return
        self.step("fsync folder", folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with _plain_failures_allowed():  # some network file systems know no such thing
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _plain_failures_allowed() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _PLAIN_FAILURES:
            raise


def looks_of(path: str) -> Looks:
    """What a file has besides its bytes."""
    now = os.lstat(path)
    # Access lists and labels too, where the file system keeps any
    more: dict[str, bytes] = {}
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # not every file system
            for name in os.listxattr(path, follow_symlinks=False):
                more[name] = os.getxattr(path, name, follow_symlinks=False)
    return Looks(
        mode=stat.S_IMODE(now.st_mode), owner=now.st_uid, group=now.st_gid, modified_ns=now.st_mtime_ns, attributes=more
    )


def read_whole(path: str) -> bytes | None:
    """The bytes of a regular file; None where there is none, ValueError where it is something else or too large."""
    try:
        descriptor = os.open(path, os.O_RDONLY | OPEN_FLAGS | _NONBLOCK)  # a pipe would wait for its writer
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} is not a regular file")
        data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise ValueError(f"{path} is larger than {LARGEST_BYTES >> 20} MiB")
    return data


def digest(data: bytes | None) -> str | None:
    """What tells contents apart; None of no file."""
    return None if data is None else hashlib.sha256(data).hexdigest()
