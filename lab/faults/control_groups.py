"""Control groups that a server is started in: less CPU, one CPU, less memory, a slow disk; versions 1 and 2."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from lab.faults.fault import Playing, SkippedError

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
_GONE_S = 10.0


class Limit(NamedTuple):
    """One limit, as each version of control groups spells it: file and text."""

    controller: str
    v1: Mapping[str, str]
    v2: Mapping[str, str]
    v1_controller: str = ""
    """Where version 1 calls it otherwise."""


def cpu_quota(cpus: float) -> Limit:
    """So many CPUs' worth of time, on however many CPUs."""
    quota = str(round(cpus * PERIOD_US))
    return Limit(
        "cpu", {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": quota}, {"cpu.max": f"{quota} {PERIOD_US}"}
    )


def cpuset(cpus: str) -> Limit:
    """These CPUs alone."""
    return Limit("cpuset", {"cpuset.cpus": cpus, "cpuset.mems": "0"}, {"cpuset.cpus": cpus})


def memory(limit_bytes: int) -> Limit:
    """That much memory, the file cache counted; what is more goes to swap or back to its file."""
    return Limit("memory", {"memory.limit_in_bytes": str(limit_bytes)}, {"memory.max": str(limit_bytes)})


def disk(bytes_per_s: int, path: str) -> Limit:
    """No faster reading from the disk that the path is on."""
    device = Path(path).stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    v1 = {"blkio.throttle.read_bps_device": f"{number} {bytes_per_s}"}
    return Limit("io", v1, {"io.max": f"{number} rbps={bytes_per_s}"}, "blkio")


def limited(*limits: Limit | Callable[[Playing], Limit]) -> Callable[[Playing], AbstractContextManager[object]]:
    """The server in a group of its own with these limits; a callable is asked when the stage is about to be played."""

    @contextmanager
    def around(playing: Playing) -> Iterator[None]:
        asked = [limit(playing) if callable(limit) else limit for limit in limits]
        folders: list[Path] = []
        try:
            for limit in asked:
                folders.append(_made(limit))  # noqa: PERF401 (those that were made are removed where one can't be)
            playing.command[:0] = _joining(folders)
            yield
        finally:
            for folder in dict.fromkeys(folders):
                _remove(folder)

    return around


def _made(limit: Limit) -> Path:
    """The folder of a new group with the limit set; SkippedError where that is not allowed."""
    second = (ROOT / "cgroup.controllers").is_file()
    folder = (ROOT if second else ROOT / (limit.v1_controller or limit.controller)) / f"lab-faults-{os.getpid()}"
    try:
        if second and limit.controller not in (ROOT / "cgroup.subtree_control").read_text().split():
            (ROOT / "cgroup.subtree_control").write_text(f"+{limit.controller}")
        folder.mkdir(exist_ok=True)
        for file, text in (limit.v2 if second else limit.v1).items():
            (folder / file).write_text(text)
    except OSError as error:
        _remove(folder)
        raise SkippedError(f"a control group could not be set up: {error}") from error
    return folder


def _joining(folders: list[Path]) -> list[str]:
    """A command that joins the groups and then becomes the command that follows."""
    join = "".join(f"echo $$ > '{folder}/cgroup.procs'; " for folder in dict.fromkeys(folders))
    return ["sh", "-c", f'{join}exec "$@"', "sh"]


def _remove(folder: Path) -> None:
    """Remove the group once its last process is gone."""
    end = time.monotonic() + _GONE_S
    while folder.is_dir() and time.monotonic() < end:
        with suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.1)
