"""The GPUs that ROCm can compute on: the topology of the kernel's KFD."""

from typing import NamedTuple

from unslow.look.kernel.files import parse_numbers, read_number
from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

KFD = "/sys/class/kfd/kfd"
_MOST_NODES = 256


class Node(NamedTuple):
    """One GPU: where its properties stand, its instruction set, and the number that KFD gave it."""

    source: str
    architecture: str
    number: int


def read_nodes(system: System) -> dict[str, Node]:
    """The GPUs by PCI address, in ROCm's order; none where there is no KFD."""
    try:
        names = sorted((n for n in system.list_dir(f"{KFD}/topology/nodes") if n.isdecimal()), key=int)[:_MOST_NODES]
    except LookError:
        return {}
    found: dict[str, Node] = {}
    for name in names:
        path = f"{KFD}/topology/nodes/{name}"
        try:
            node = parse_properties(read_text(system, f"{path}/properties"))
            number = read_number(system, f"{path}/gpu_id") if node else 0
        except LookError:  # a container sees the nodes of GPUs that it was not given, and may not read them
            continue
        if node:
            found[node[0]] = Node(f"{path}/properties", node[1], number)
    return found


def parse_properties(text: str) -> tuple[str, str] | None:
    """PCI address and instruction set; None for a node that is only a processor."""
    numbers = parse_numbers(text)
    version, place = numbers.get("gfx_target_version", 0), numbers.get("location_id", 0)
    if not version:
        return None
    bus_id = f"{numbers.get('domain', 0):04x}:{place >> 8 & 255:02x}:{place >> 3 & 31:02x}.{place & 7}"
    return bus_id, architecture(version)


def architecture(version: int) -> str:
    """110501 is gfx1151, and 90010 is gfx90a: two decimal digits for each part, written as hexadecimal ones."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def read_held(system: System, pid: int, number: int) -> int:
    """What a process holds on a GPU in VRAM by KFD's count; nothing where it does not say."""
    try:
        return read_number(system, f"{KFD}/proc/{pid}/vram_{number}")
    except LookError:
        return 0


def read_pids(system: System) -> list[int]:
    """The processes that compute through KFD."""
    try:
        return [int(name) for name in system.list_dir(f"{KFD}/proc") if name.isdecimal()]
    except LookError:
        return []
