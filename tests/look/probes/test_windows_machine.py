import msgspec
import pytest
from doubles import FakeSystem

from unslow.facts.machine import Machine
from unslow.facts.values import NOT_LOOKED, Origin
from unslow.look.logs.windows import parse_objects, powershell_command
from unslow.look.probes.windows_machine import OBJECTS, read
from unslow.look.system import FinishedCommand, LookError

KIB, MIB = 1024, 1024**2
ANSWER = {
    "os": {"Caption": "Microsoft Windows 11 Pro", "Version": "10.0.26100", "TotalVisibleMemorySize": 33343532,
           "FreePhysicalMemory": "9021344"},
    "cpu": [{"Name": "AMD Ryzen 7 5800X 8-Core Processor             ", "NumberOfCores": 8,
             "NumberOfLogicalProcessors": 16}],
    "ram": [{"SMBIOSMemoryType": 26, "ConfiguredClockSpeed": 3200, "Capacity": 17179869184},
            {"SMBIOSMemoryType": 26, "ConfiguredClockSpeed": 3200, "Capacity": 17179869184}],
    "page": {"AllocatedBaseSize": 4864, "CurrentUsage": 120},
}  # fmt: skip


def windows(answer: object) -> FakeSystem:
    done = FinishedCommand(0, msgspec.json.encode(answer).decode(), "Get-CimInstance : Access denied")
    return FakeSystem(asks={"sys.platform": "win32"}, commands={" ".join(powershell_command(OBJECTS)): done})


def test_windows_machine_facts_are_read():
    machine = read(windows(ANSWER))
    assert (machine.system.name.need(), machine.system.version.need()) == ("Microsoft Windows 11 Pro", "10.0.26100")
    assert machine.cpu.model.need() == "AMD Ryzen 7 5800X 8-Core Processor"
    assert (machine.cpu.sockets.need(), machine.cpu.physical_cores.need(), machine.cpu.logical_cpus.need()) == (
        1,
        8,
        16,
    )
    memory = machine.memory
    assert (memory.total_bytes.need(), memory.available_bytes.need()) == (33343532 * KIB, 9021344 * KIB)
    assert (memory.swap_total_bytes.need(), memory.swap_used_bytes.need()) == (4864 * MIB, 120 * MIB)
    assert (memory.kind.need(), memory.kind.origin) == ("DDR4-3200", Origin.ESTIMATED)


def test_ram_modules_of_two_kinds_have_no_kind():
    mixed = ANSWER | {"ram": [{"SMBIOSMemoryType": 26, "ConfiguredClockSpeed": 3200}, {"SMBIOSMemoryType": 34}]}
    assert read(windows(mixed)).memory.kind == NOT_LOOKED


@pytest.mark.parametrize("asks", [{}, {"sys.platform": "linux"}])
def test_windows_machine_facts_are_not_read_elsewhere(asks: dict[str, str]):
    assert read(FakeSystem(asks=asks)) == Machine()


def test_an_empty_windows_answer_is_a_failed_look():
    with pytest.raises(LookError, match="Access denied"):
        read(windows({}))


@pytest.mark.parametrize(
    "text", ["", "[]", "null", '{"os": 5}', '{"os": {"TotalVisibleMemorySize": -1}}', "[" * 10**5, '{"cpu": [[], 7]}']
)
def test_garbage_windows_objects_give_no_facts(text: str):
    assert parse_objects(text) == Machine()


DISKS = [
    {"DeviceId": "0", "MediaType": "SSD", "BusType": "NVMe"},
    {"DeviceId": "1", "MediaType": "HDD", "BusType": "USB"},
    {"DeviceId": 2, "MediaType": 4, "BusType": 11},
    {"DeviceId": "3", "MediaType": "Unspecified", "BusType": "USB"},
]
PARTS = [{"Drive": d, "DiskNumber": n} for d, n in (("C", 0), ("d", 1), ("E", "2"), ("F", 3), ("G", 9), ("", 0))]


def test_each_windows_drive_has_the_kind_of_its_disk():
    disks = read(windows(ANSWER | {"disk": DISKS, "part": PARTS})).disks
    assert [(disk.path, disk.kind.need()) for disk in disks] == [
        ("C:\\", "nvme"), ("D:\\", "hdd"), ("E:\\", "ssd"), ("F:\\", "other"),
    ]  # fmt: skip
