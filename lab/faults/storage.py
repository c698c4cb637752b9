"""Models on a disk: a copy that nobody else reads, a cache that has forgotten it, and a swap file."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from lab.faults.fault import Playing, SkippedError


@contextmanager
def cold_copy(playing: Playing) -> Iterator[None]:
    """The server loads a copy of its model that is in nobody's file cache."""
    copy = Path(playing.scratch) / Path(playing.model).name
    shutil.copyfile(playing.model, copy)
    playing.instead(playing.model, str(copy))
    forget(copy)
    yield


def forget(path: Path) -> None:
    """Have the kernel drop what it keeps of a file; what others have mapped stays."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def swap_file(size_bytes: int) -> Callable[[Playing], AbstractContextManager[object]]:
    """Swap to page out to, for as long as the stage is played; SkippedError where that is not allowed."""

    @contextmanager
    def around(playing: Playing) -> Iterator[None]:
        path = Path(playing.scratch) / "swap"
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size_bytes)
        path.chmod(0o600)
        for command in ("mkswap", "swapon"):
            _run(command, path)
        try:
            yield
        finally:
            _run("swapoff", path)

    return around


def _run(command: str, path: Path) -> None:
    try:
        subprocess.run([command, str(path)], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SkippedError(f"{command}: {getattr(error, 'stderr', '') or error}") from error
