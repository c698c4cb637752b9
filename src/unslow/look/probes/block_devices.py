"""What lies under a path: the mount table, then the block device and those below it, down to the metal."""

import os
import posixpath
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Literal

from unslow.facts.machine import Disk, Machine
from unslow.facts.values import NOT_LOOKED, Absence, Bytes, Fact, estimated_fact, failed_fact, not_found, reported_fact
from unslow.look.kernel import is_there, read_number, read_word
from unslow.look.kernel.processes import MOUNT_TABLE, MOUNT_TABLE_LIMIT_BYTES, Mount, mount_of, parse_mounts
from unslow.look.system import LookError, System, read_text, try_fact, try_look, unknown

Kind = Literal["nvme", "ssd", "hdd", "network", "memory", "virtual", "other"]

BLOCK = "/sys/class/block"
MOST_DEVICES = 64  # looked at under one path, so that a strange tree ends
_BY_FILESYSTEM: dict[str, Kind] = {
    **dict.fromkeys(("tmpfs", "ramfs", "devtmpfs"), "memory"),
    **dict.fromkeys(("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "gpfs", "beegfs", "glusterfs"), "network"),
    "virtiofs": "virtual",
}
_NETWORK_FUSE = tuple(
    f"fuse.{name}"
    for name in ("sshfs", "rclone", "s3fs", "gcsfuse", "glusterfs", "ceph", "juicefs", "smbnetfs", "davfs")
)
_BY_NAME: tuple[tuple[tuple[str, ...], Kind], ...] = (
    (("vd", "xvd"), "virtual"),
    (("nbd", "rbd", "drbd"), "network"),
    (("zram", "ram", "pmem"), "memory"),
    (("mmcblk", "loop", "sr"), "other"),
)
_VIRTUAL_VENDORS = ("qemu", "vmware", "msft", "google", "vbox", "virtio")
_CLOUD_VOLUMES = ("elastic block store", "nvme_card-pd", "msft nvme accelerator", "persistentdisk")
"""Models that volumes of clouds go by: they are reached over the network, though their driver is that of NVMe."""
_NVME_DISK = re.compile(r"p\d{1,3}$")  # The part of a name that tells the partition: nvme0n1p2
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
    free = try_fact(_read_free, system, real) if own else not_found("the path belongs to another process")
    why = not_found(f"{table} has nothing for {real}")
    try:
        mount = mount_of(real, parse_mounts(read_text(system, table, MOUNT_TABLE_LIMIT_BYTES)))
    except LookError as error:
        mount, why = None, unknown(error)
    if not mount:
        return Disk(path=path, kind=why, device=why, filesystem=why, free_bytes=free)
    kind, device = _read_kind_and_device(system, mount)
    filesystem = reported_fact(mount.filesystem, table)
    return Disk(path=path, kind=kind, device=device, filesystem=filesystem, free_bytes=free)


def _read_real_path(system: System, path: str) -> str:
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
    def ask() -> int:
        if sys.platform == "win32":
            raise LookError("this system has no statvfs", Absence.NOT_SUPPORTED)
        try:
            answer = os.statvfs(path)
        except OSError as error:
            raise LookError(f"statvfs {path}: {error.strerror or error}") from error
        return answer.f_bavail * answer.f_frsize  # what a user who is not root may still write

    free, failed = system.ask(f"statvfs {path}", ask), failed_fact("statvfs returned no number")
    return reported_fact(free, "statvfs") if isinstance(free, int) and free >= 0 else failed


def _read_kind_and_device(system: System, mount: Mount) -> tuple[Fact[Kind], Fact[str]]:
    kind = "network" if mount.filesystem.startswith(_NETWORK_FUSE) else _BY_FILESYSTEM.get(mount.filesystem)
    if kind:  # what the filesystem alone tells; others are on block devices
        return reported_fact(kind, MOUNT_TABLE), reported_fact(mount.source, MOUNT_TABLE)
    device: Fact[str] = NOT_LOOKED
    try:
        name = _read_device(system, mount)
        device = reported_fact(f"/dev/{name}", MOUNT_TABLE)
        kinds = {_read_disk_kind(system, metal) for metal in _read_metal(system, name)}
        return reported_fact(min(kinds, key=_SLOWEST_FIRST.index), f"{BLOCK}/{name}"), device
    except LookError as error:
        device = unknown(error) if device is NOT_LOOKED else device
        # A container or a pool hides its disk, but not those of the machine
        disks = [n for n in try_look([], system.list_dir, "/sys/block")[:MOST_DEVICES] if not n.startswith(_NO_DISKS)]
        all_kinds = {try_look(None, _read_disk_kind, system, disk) for disk in disks} - {None}
        only = all_kinds.pop() if len(all_kinds) == 1 else None
        return estimated_fact(only, "/sys/block: all disks are of this kind") if only else unknown(error), device


def _read_device(system: System, mount: Mount) -> str:
    """The block device's name; btrfs and zfs have anonymous device numbers, so there the mount source names it."""
    if not mount.device.startswith("0:"):
        with suppress(LookError):
            return posixpath.basename(system.read_link(f"/sys/dev/block/{mount.device}"))
    if not mount.source.startswith("/dev/"):
        raise LookError(f"{mount.filesystem} at {mount.point} names no block device", Absence.NOT_SUPPORTED)
    return posixpath.basename(try_look(mount.source, system.read_link, mount.source))


def _read_metal(system: System, device: str) -> set[str]:
    """The devices under one that is made of others: LVM, LUKS, RAID."""
    metal, seen, left = set(), set[str](), [device]
    while left and len(seen) < MOST_DEVICES:
        name = left.pop()
        below = [] if name in seen else try_look([], system.list_dir, f"{BLOCK}/{name}/slaves")
        if not below and name not in seen:
            metal.add(name)
        seen.add(name)
        left += below
    if not metal:
        raise LookError(f"{BLOCK}/{device}: its devices form a loop")
    return metal


def _read_disk_kind(system: System, name: str) -> Kind:
    """The kind of one real device; a virtual one often claims to rotate."""
    if name.startswith("nvme"):
        model = try_look("", read_word, system, f"{BLOCK}/{_NVME_DISK.sub('', name)}/device/model").lower()
        return "network" if any(volume in model for volume in _CLOUD_VOLUMES) else "nvme"
    if kind := next((kind for start, kind in _BY_NAME if name.startswith(start)), None):
        return kind
    disk = name
    if is_there(system, f"{BLOCK}/{name}/partition"):
        disk = posixpath.basename(posixpath.dirname(system.read_link(f"{BLOCK}/{name}")))
    vendor = try_look("", read_word, system, f"{BLOCK}/{disk}/device/vendor")
    if vendor.lower().startswith(_VIRTUAL_VENDORS):
        return "virtual"
    return "hdd" if read_number(system, f"{BLOCK}/{disk}/queue/rotational") else "ssd"
