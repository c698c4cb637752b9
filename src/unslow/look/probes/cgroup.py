"""What a process may use: control groups of version 1 and 2, from its own up to the root, and its CPU affinity."""

import re
from typing import NamedTuple

from unslow.facts.machine import Cpu, Machine, Memory
from unslow.facts.merge import overlaid
from unslow.facts.values import Absence, Bytes, Count, Fact, not_found, reported_fact
from unslow.look.kernel import parse_numbers, parse_whole, read_number, read_word
from unslow.look.kernel.processes import MOUNT_TABLE, MOUNT_TABLE_LIMIT_BYTES, Mount, parse_mounts
from unslow.look.kernel.processors import parse_cpu_list
from unslow.look.system import LookError, System, look_if_there, read_text, try_fact, try_look, unknown

ONLINE = "/sys/devices/system/cpu/online"
MOST_LEVELS = 64
NO_LIMIT_FROM_BYTES = 2**60  # version 1 writes "no limit" as the largest multiple of a page below 2**63
_ALLOWED = re.compile(r"^Cpus_allowed_list:[ \t]*([\d,-]+)", re.MULTILINE)
_MEMBER = re.compile(r"^[^:\n]*:([^:\n]*):(.*)$", re.MULTILINE)  # id:names:path
_QUOTA = re.compile(r"(\d{1,15}) (\d{1,15})")
NO_QUOTA = not_found("no CPU quota set")
_MEMORY_LIMITS = {1: ("memory.limit_in_bytes",), 2: ("memory.max", "memory.high")}
"""Above the second one nothing is killed: all that can be given back is taken back, mapped weights among it."""

Quota = tuple[float, str]  # A limit of CPU time, in processors, and the folder that sets it


class Group(NamedTuple):
    """A control group: the folder of the process and those above it, the nearest first."""

    version: int
    folders: tuple[str, ...]


def read_limits(system: System, pid: int | str = "self") -> Machine:
    """The limits of a process: the tightest on the way up; none at all is an Unknown that says so."""
    path = f"/proc/{pid}/status"
    try:
        allowed = parse_allowed_cpus(read_text(system, path))
        # The affinity mask also names CPUs that the machine could have and has not, so only those online count
        allowed &= parse_cpu_list(try_look("", read_text, system, ONLINE)) or allowed
        none = not_found(f"{path} names no allowed CPUs")
        count: Fact[Count] = reported_fact(len(allowed), path) if allowed else none
    except LookError as error:
        count = unknown(error)
    cpu = overlaid(Cpu(allowed_cpus=count), _read_cpu(system, pid))
    return Machine(cpu=cpu, memory=Memory(limit_bytes=try_fact(_read_memory_limit, system, pid)))


read = read_limits  # as a probe: of this process, whose limits the user's other processes often share


def _read_cpu(system: System, pid: int | str) -> Cpu:
    try:
        group = read_group(system, pid, "cpu")
        quotas = read_quotas(system, group)
    except LookError as error:
        why = unknown(error)
        return Cpu(quota_cpus=why, throttled_s=why, throttled_periods=why, periods=why)
    folder = min(quotas)[1] if quotas else group.folders[0]
    try:
        throttling = parse_throttling(read_text(system, f"{folder}/cpu.stat"), f"{folder}/cpu.stat")
    except LookError as error:
        why = unknown(error)
        throttling = Cpu(throttled_s=why, throttled_periods=why, periods=why)
    return overlaid(Cpu(quota_cpus=reported_fact(*min(quotas)) if quotas else NO_QUOTA), throttling)


def read_group(system: System, pid: int | str, controller: str) -> Group:
    """Where a controller keeps the process; version 1 wins where both are mounted, for it then owns the controller."""
    rows = _MEMBER.findall(read_text(system, f"/proc/{pid}/cgroup"))
    # The group's path by controller; that of version 2 stands under the empty name
    membership = {name: path for names, path in rows for name in names.split(",")}
    mounts = parse_mounts(read_text(system, MOUNT_TABLE, MOUNT_TABLE_LIMIT_BYTES))
    for mount in mounts:
        if mount.filesystem == "cgroup" and controller in mount.options.split(",") and controller in membership:
            return Group(1, _folders(mount, membership[controller]))
    for mount in mounts:
        if mount.filesystem == "cgroup2" and "" in membership:
            return Group(2, _folders(mount, membership[""]))
    raise LookError(f"no control group with the {controller} controller is mounted", Absence.NOT_FOUND)


def _folders(mount: Mount, path: str) -> tuple[str, ...]:
    """The folders from the group up to the mount point, which in a container shows only a part of the tree."""
    root = mount.root.rstrip("/")
    if ".." in path.split("/") or not f"{path}/".startswith(f"{root}/"):
        raise LookError(f"the control group {path} is not visible from here", Absence.NOT_SUPPORTED)
    parts = [part for part in path[len(root) :].split("/") if part][:MOST_LEVELS]
    point = mount.point.rstrip("/")
    return tuple("/".join([point, *parts[:depth]]) for depth in range(len(parts), -1, -1))


def read_quotas(system: System, group: Group) -> list[Quota]:
    """Those on the way up, in their order."""
    quotas = (look_if_there(None, _read_quota, system, group.version, folder) for folder in group.folders)
    return [quota for quota in quotas if quota]


def _read_quota(system: System, version: int, folder: str) -> Quota | None:
    """The group's own quota; the root of the tree has no such file."""
    if version == 1:
        quota, period = (read_number(system, f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period"))
    else:  # "200000 100000" is two CPUs, "max 100000" is no limit
        match = _QUOTA.match(read_word(system, f"{folder}/cpu.max"))
        quota, period = (int(match[1]), int(match[2])) if match else (0, 0)
    return (quota / period, folder) if quota > 0 and period > 0 else None


def parse_throttling(text: str, source: str) -> Cpu:
    """Enforcement periods so far, those in which the quota ran out, and the time lost by it."""
    numbers = parse_numbers(text)
    lost_s = numbers["throttled_usec"] / 1e6 if "throttled_usec" in numbers else numbers.get("throttled_time", -1) / 1e9
    if lost_s < 0 or not {"nr_periods", "nr_throttled"} <= numbers.keys():
        why = not_found(f"{source} counts no throttling")
        return Cpu(throttled_s=why, throttled_periods=why, periods=why)
    return Cpu(
        throttled_s=reported_fact(lost_s, source),
        throttled_periods=reported_fact(numbers["nr_throttled"], source),
        periods=reported_fact(numbers["nr_periods"], source),
    )


def parse_allowed_cpus(text: str) -> frozenset[int]:
    """The CPUs that cpusets and affinity leave to the process; empty where the text does not say."""
    match = _ALLOWED.search(text)
    return parse_cpu_list(match[1]) if match else frozenset()


def _read_memory_limit(system: System, pid: int | str) -> Fact[Bytes]:
    group = read_group(system, pid, "memory")
    paths = (f"{folder}/{name}" for folder in group.folders for name in _MEMORY_LIMITS[group.version])
    sizes = ((parse_whole(look_if_there("", read_word, system, path)), path) for path in paths)
    limits = [(size, path) for size, path in sizes if size is not None and size < NO_LIMIT_FROM_BYTES]
    return reported_fact(*min(limits)) if limits else not_found("no memory limit set")
