"""The disks that the models of running servers lie on."""

import posixpath
from collections.abc import Iterable

from unslow.facts.machine import Disk
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known
from unslow.look.kernel.mounts import MOUNT_TABLE
from unslow.look.probes.block_devices import read_disk
from unslow.look.system import System

MOST_MODELS = 16


def read_model_disks(system: System, subjects: Iterable[Subject]) -> tuple[Disk, ...]:
    """One for each folder with the model of a process that is on this machine; in a container by its own mounts."""
    tables: dict[str, str] = {}
    for subject in subjects:
        path, pid = subject.model.path.value_or(""), subject.runtime.pid
        if isinstance(pid, Known) and posixpath.isabs(path):
            boxed = bool(subject.runtime.container.value_or(""))
            tables.setdefault(posixpath.dirname(path), f"/proc/{pid.value}/mountinfo" if boxed else MOUNT_TABLE)
    return tuple(read_disk(system, folder, table) for folder, table in list(tables.items())[:MOST_MODELS])
