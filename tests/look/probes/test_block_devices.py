import pytest
from doubles import FakeSystem

from unslow.facts.values import Absence, Origin, Unknown
from unslow.look.probes.block_devices import BLOCK, read, read_disk

ROOT = "27 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n"


def machine(mounts, links=None, **more):
    """A machine whose / is on what the mount line says."""
    return FakeSystem(
        files={"/proc/self/mountinfo": mounts} | more.pop("files", {}),
        links={"/models": "/models", "/": "/"} | (links or {}),
        asks={"statvfs /models": 5000, "statvfs /": 7000},
        **more,
    )


def test_a_filesystem_on_nvme_gives_an_nvme_disk():
    disk = read_disk(machine(ROOT, {"/sys/dev/block/259:2": "/sys/devices/nvme/nvme0n1/nvme0n1p2"}), "/models")
    assert [disk.kind.need(), disk.device.need(), disk.filesystem.need()] == ["nvme", "/dev/nvme0n1p2", "ext4"]
    assert disk.free_bytes.need() == 5000


@pytest.mark.parametrize(
    ("rotational", "vendor", "kind"), [("1", "ATA", "hdd"), ("0", "ATA", "ssd"), ("1", "QEMU", "virtual")]
)
def test_a_partition_has_the_kind_of_its_disk(rotational, vendor, kind):
    links = {"/sys/dev/block/8:1": "/sys/x/sda/sda1", f"{BLOCK}/sda1": "/sys/x/sda/sda1"}
    files = {
        f"{BLOCK}/sda1/partition": "1",
        f"{BLOCK}/sda/queue/rotational": f"{rotational}\n",
        f"{BLOCK}/sda/device/vendor": f"{vendor}     \n",
    }
    disk = read_disk(machine("27 1 8:1 / / rw - ext4 /dev/sda1 rw\n", links, files=files), "/models")
    assert disk.kind.need() == kind


def test_btrfs_on_luks_is_resolved_through_its_source():
    mounts = "27 1 0:30 /@home / rw - btrfs /dev/mapper/luks-1 rw,subvol=/@home\n"
    system = machine(mounts, {"/dev/mapper/luks-1": "/dev/dm-0"}, folders={f"{BLOCK}/dm-0/slaves": ["nvme1n1p3"]})
    disk = read_disk(system, "/models")
    assert [disk.kind.need(), disk.device.need()] == ["nvme", "/dev/dm-0"]


def test_a_raid_array_has_the_kind_of_its_slowest_member():
    folders = {f"{BLOCK}/md0/slaves": ["sda", "nvme0n1"]}
    files = {f"{BLOCK}/sda/queue/rotational": "1"}
    links = {"/sys/dev/block/9:0": "/sys/devices/virtual/block/md0"}
    disk = read_disk(machine("27 1 9:0 / / rw - xfs /dev/md0 rw\n", links, folders=folders, files=files), "/models")
    assert disk.kind.need() == "hdd"


def test_a_cycle_of_block_devices_terminates():
    folders = {f"{BLOCK}/dm-0/slaves": ["dm-1"], f"{BLOCK}/dm-1/slaves": ["dm-0"]}
    links = {"/sys/dev/block/253:0": "/sys/devices/virtual/block/dm-0"}
    disk = read_disk(machine("27 1 253:0 / / rw - xfs /dev/dm-0 rw\n", links, folders=folders), "/models")
    assert isinstance(disk.kind, Unknown)


@pytest.mark.parametrize(
    ("filesystem", "kind"),
    [("nfs4", "network"), ("cifs", "network"), ("9p", "network"), ("fuse.sshfs", "network"), ("tmpfs", "memory")],
)
def test_network_and_memory_filesystems_have_their_kind(filesystem, kind):
    disk = read_disk(machine(f"27 1 0:30 / / rw - {filesystem} box:/models rw\n"), "/models")
    assert [disk.kind.need(), disk.device.need()] == [kind, "box:/models"]


def test_a_container_infers_the_kind_if_the_machine_has_only_one():
    overlay = "27 1 0:50 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/x\n"
    disk = read_disk(machine(overlay, folders={"/sys/block": ["loop0", "nvme0n1", "nvme1n1"]}), "/models")
    assert disk.kind.need() == "nvme"
    assert disk.kind.origin is Origin.ESTIMATED
    mixed = {"/sys/block": ["nvme0n1", "sda"]}
    disk = read_disk(machine(overlay, folders=mixed, files={f"{BLOCK}/sda/queue/rotational": "1"}), "/models")
    assert disk.kind.absence is Absence.NOT_SUPPORTED


def test_a_missing_path_uses_its_nearest_existing_parent():
    disk = read_disk(machine(ROOT, {"/sys/dev/block/259:2": "/sys/x/nvme0n1/nvme0n1p2"}), "/models/new/file.gguf")
    assert disk.path == "/models/new/file.gguf"
    assert disk.free_bytes.need() == 5000


def test_the_probe_reads_the_disk_under_the_users_cache():
    system = machine(ROOT, {"/sys/dev/block/259:2": "/sys/x/nvme0n1/nvme0n1p2"})
    system.asks["home"] = "/home/me"
    (disk,) = read(system).disks
    assert [disk.path, disk.kind.need(), disk.free_bytes.need()] == ["/home/me/.cache", "nvme", 7000]


@pytest.mark.parametrize("home", [None, 5, "", "C:\\Users\\me"])
def test_without_a_usable_home_no_disk_is_read(home):
    assert read(FakeSystem(asks={"home": home})).disks == ()


def test_garbage_mount_data_gives_unknown_disk_facts():
    disk = read_disk(FakeSystem(files={"/proc/self/mountinfo": "\x00 - \n"}, asks={"statvfs /x": "much"}), "/x")
    assert isinstance(disk.kind, Unknown)
    assert disk.free_bytes.absence is Absence.FAILED
    assert isinstance(read_disk(FakeSystem(), "relative").kind, Unknown)


@pytest.mark.parametrize(
    ("model", "kind"),
    [("Amazon Elastic Block Store", "network"), ("Samsung SSD 990 PRO 2TB", "nvme"), ("nvme_card-pd", "network")],
)
def test_cloud_volumes_on_nvme_are_network_disks(model, kind):
    links = {"/sys/dev/block/259:2": "/sys/devices/nvme/nvme0n1/nvme0n1p2"}
    disk = read_disk(machine(ROOT, links, files={f"{BLOCK}/nvme0n1/device/model": f"{model}\n"}), "/models")
    assert disk.kind.need() == kind


def test_a_disk_can_be_read_by_the_mounts_of_another_process():
    table = "/proc/7/mountinfo"
    system = machine(ROOT, files={table: "44 1 0:60 / /models rw - nfs4 nas:/models rw\n"})
    disk = read_disk(system, "/models", table)
    assert [disk.kind.need(), disk.filesystem.source] == ["network", table]
    assert isinstance(disk.free_bytes, Unknown)
