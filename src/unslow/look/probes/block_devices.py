"""What lies under a path: the mount table, then the block device and those below it, down to the metal."""

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Literal

from unslow.facts.machine import Disk, Machine
from unslow.facts.values import Absence, Bytes, Fact, estimated, failed, not_found, reported
from unslow.look.kernel import is_there, read_number, read_word
from unslow.look.kernel.processes import MOUNT_TABLE, MOUNT_TABLE_LIMIT_BYTES, Mount, mount_of, parse_mounts
from unslow.look.system import LookError, System, read_text, unknown

Kind = Literal["nvme", "ssd", "hdd", "network", "memory", "virtual", "other"]

BLOCK = "/sys/class/block"
MOST_DEVICES = 64  # looked at under one path, so that a strange tree ends
_BY_FILESYSTEM: dict[str, Kind] = {
    **dict.fromkeys(("tmpfs", "ramfs", "devtmpfs"), "memory"),
    **dict.fromkeys(("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "gpfs", "beegfs", "glusterfs"), "network"),
    "virtiofs": "virtual",
}
_NETWORK_FUSE = ("sshfs", "rclone", "s3fs", "gcsfuse", "glusterfs", "ceph", "juicefs", "smbnetfs", "davfs")
_BY_NAME: tuple[tuple[str, Kind], ...] = (
    ("vd", "virtual"),
    ("xvd", "virtual"),
    ("nbd", "network"),
    ("rbd", "network"),
    ("drbd", "network"),
    ("zram", "memory"),
    ("ram", "memory"),
    ("pmem", "memory"),
    ("mmcblk", "other"),
    ("loop", "other"),
    ("sr", "other"),
)
_VIRTUAL_VENDORS = ("qemu", "vmware", "msft", "google", "vbox", "virtio")
_CLOUD_VOLUMES = ("elastic block store", "nvme_card-pd", "msft nvme accelerator", "persistentdisk")
"""Models that volumes of clouds go by: they are reached over the network, though their driver is that of NVMe."""
_NVME_DISK = re.compile(r"p\d{1,3}$")
"""The part of a name that tells the partition: nvme0n1p2."""
_SLOWEST_FIRST: tuple[Kind, ...] = ("network", "hdd", "other", "virtual", "ssd", "nvme", "memory")
_NO_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "nbd", "fd")


def read(system: System) -> Machine:
    """The disk under the user's cache folder, where most runtimes keep their models."""
    home = system.ask("home", lambda: str(Path.home()))
    if not isinstance(home, str) or not posixpath.isabs(home):
        return Machine()
    return Machine(disks=(read_disk(system, posixpath.join(home, ".cache")),))


def read_disk(system: System, path: str, table: str = MOUNT_TABLE) -> Disk:
    """The disk under a path, which need not exist: then it is the one where it would be made.

    By the mount table of another process it is that process's path: a container has a tree of its own.
    """
    own = table == MOUNT_TABLE
    real = _read_real_path(system, path) if own else path
    free = _read_free(system, real) if own else not_found("the path is that of another process")
    try:
        mount = mount_of(real, parse_mounts(read_text(system, table, MOUNT_TABLE_LIMIT_BYTES)))
    except LookError as error:
        why = unknown(error)
        return Disk(path=path, kind=why, device=why, filesystem=why, free_bytes=free)
    if not mount:
        none = not_found(f"{table} has nothing for {real}")
        return Disk(path=path, kind=none, device=none, filesystem=none, free_bytes=free)
    return Disk(
        path=path,
        kind=_read_kind(system, mount),
        device=_device_fact(system, mount),
        filesystem=reported(mount.filesystem, table),
        free_bytes=free,
    )


def _read_real_path(system: System, path: str) -> str:
    """The path without links; the part of it that exists."""
    part = path
    while True:
        try:
            return system.read_link(part)
        except LookError:
            parent = posixpath.dirname(part)
            if parent == part:
                return path
            part = parent


def _read_free(system: System, path: str) -> Fact[Bytes]:
    """What a user who is not root may still write."""
    try:
        free = system.ask(f"statvfs {path}", lambda: _free_bytes(path))
    except LookError as error:
        return unknown(error)
    return reported(free, "statvfs") if isinstance(free, int) and free >= 0 else failed("statvfs gave no number")


def _free_bytes(path: str) -> int:
    if sys.platform == "win32":
        raise LookError("this system has no statvfs", Absence.NOT_SUPPORTED)
    try:
        answer = os.statvfs(path)
    except OSError as error:
        raise LookError(f"statvfs {path}: {error.strerror or error}") from error
    return answer.f_bavail * answer.f_frsize


def _device_fact(system: System, mount: Mount) -> Fact[str]:
    if parse_kind(mount.filesystem):
        return reported(mount.source, MOUNT_TABLE)
    try:
        return reported(f"/dev/{_read_device(system, mount)}", MOUNT_TABLE)
    except LookError as error:
        return unknown(error)


def parse_kind(filesystem: str) -> Kind | None:
    """The kind of storage that the filesystem alone tells; None for those on block devices."""
    if filesystem.startswith("fuse.") and filesystem.removeprefix("fuse.").startswith(_NETWORK_FUSE):
        return "network"
    return _BY_FILESYSTEM.get(filesystem)


def _read_kind(system: System, mount: Mount) -> Fact[Kind]:
    by_filesystem = parse_kind(mount.filesystem)
    if by_filesystem:
        return reported(by_filesystem, MOUNT_TABLE)
    try:
        device = _read_device(system, mount)
        kinds = {_read_disk_kind(system, name) for name in _read_metal(system, device)}
        return reported(_slowest(kinds), f"{BLOCK}/{device}")
    except LookError as error:
        kinds = _read_kinds_of_all(system)
        one = len(kinds) == 1
        return estimated(_slowest(kinds), "/sys/block: all disks are of this kind") if one else unknown(error)


def _slowest(kinds: set[Kind]) -> Kind:
    return next(kind for kind in _SLOWEST_FIRST if kind in kinds)


def _read_device(system: System, mount: Mount) -> str:
    """The block device's name; btrfs and zfs have anonymous device numbers, so there the mount source names it."""
    if not mount.device.startswith("0:"):
        try:
            return posixpath.basename(system.read_link(f"/sys/dev/block/{mount.device}"))
        except LookError:
            pass
    if not mount.source.startswith("/dev/"):
        raise LookError(f"{mount.filesystem} at {mount.point} names no block device", Absence.NOT_SUPPORTED)
    try:
        return posixpath.basename(system.read_link(mount.source))
    except LookError:
        return posixpath.basename(mount.source)


def _read_metal(system: System, device: str) -> set[str]:
    """The devices under one that is made of others: LVM, LUKS, RAID."""
    metal, seen, left = set(), set[str](), [device]
    while left and len(seen) < MOST_DEVICES:
        name = left.pop()
        below = [] if name in seen else _read_names(system, f"{BLOCK}/{name}/slaves")
        if not below and name not in seen:
            metal.add(name)
        seen.add(name)
        left += below
    if not metal:
        raise LookError(f"{BLOCK}/{device}: made of devices that are made of it")
    return metal


def _read_names(system: System, folder: str) -> list[str]:
    try:
        return system.list_dir(folder)
    except LookError:
        return []


def _read_disk_kind(system: System, name: str) -> Kind:
    """The kind of one real device; a virtual one often claims to rotate."""
    if name.startswith("nvme"):
        model = _read_word(system, f"{BLOCK}/{_NVME_DISK.sub('', name)}/device/model").lower()
        return "network" if any(volume in model for volume in _CLOUD_VOLUMES) else "nvme"
    for start, kind in _BY_NAME:
        if name.startswith(start):
            return kind
    disk = name
    if is_there(system, f"{BLOCK}/{name}/partition"):
        disk = posixpath.basename(posixpath.dirname(system.read_link(f"{BLOCK}/{name}")))
    if _read_word(system, f"{BLOCK}/{disk}/device/vendor").lower().startswith(_VIRTUAL_VENDORS):
        return "virtual"
    return "hdd" if read_number(system, f"{BLOCK}/{disk}/queue/rotational") else "ssd"


def _read_word(system: System, path: str) -> str:
    try:
        return read_word(system, path)
    except LookError:
        return ""


def _read_kinds_of_all(system: System) -> set[Kind]:
    """The kinds of all disks in the machine, for what a container or a pool hides."""
    kinds = set[Kind]()
    for name in _read_names(system, "/sys/block")[:MOST_DEVICES]:
        if not name.startswith(_NO_DISKS):
            try:
                kinds.add(_read_disk_kind(system, name))
            except LookError:
                continue
    return kinds
