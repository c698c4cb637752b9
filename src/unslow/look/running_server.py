"""What the process of a running server shows: its limits, its memory by node, its build, the disk of its model."""

import posixpath
from collections.abc import Iterable

import msgspec

from unslow.facts.machine import Disk
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Fact, Known, first_known, measured, not_found, reported
from unslow.look.command_writer.starters import unit_fact
from unslow.look.kernel import parse_numbers
from unslow.look.kernel.processes import (
    MOUNT_TABLE,
    NUMA_MAPS_LIMIT_BYTES,
    parse_bytes_by_node,
    parse_cpu_library,
    read_code_features,
    read_nodes,
)
from unslow.look.probes.block_devices import read_disk
from unslow.look.probes.cgroup import NO_QUOTA, read_limits
from unslow.look.processes import read_process
from unslow.look.system import LookError, System, read_text, try_fact, unknown

GRAPHS_OFF = "GGML_CUDA_DISABLE_GRAPHS"  # Whatever its value, ggml's CUDA backend then starts every kernel by itself
MAPS_LIMIT_BYTES = 4 * 1024**2

MOST_MODELS = 16


def with_own_process(system: System, subject: Subject) -> Subject:
    """The subject with what its process shows; as it is where its process can't be seen."""
    subject = with_limits(system, subject)
    runtime, pid = subject.runtime, subject.runtime.pid
    if not isinstance(pid, Known):
        return subject
    eager, environment = runtime.eager, runtime.environment
    if not isinstance(eager, Known) and isinstance(environment, Known) and GRAPHS_OFF in environment.value:
        eager = reported(True, f"{environment.source}: {GRAPHS_OFF}")  # noqa: FBT003 (the value of a fact)
    nodes = try_fact(_bytes_by_node, system, pid.value)
    changed = msgspec.structs.replace(
        runtime,
        eager=eager,
        build_features=first_known(runtime.build_features, try_fact(_build_features, system, pid.value)),
        unit=runtime.unit if runtime.unit != NOT_LOOKED else unit_fact(read_process(system, pid.value)),
        bytes_by_node=nodes,
        disk_read_bytes=_disk_read_bytes(system, runtime, pid.value),
    )
    return msgspec.structs.replace(subject, runtime=changed)


def with_limits(system: System, subject: Subject) -> Subject:
    """The subject with the cpuset, quota and memory of its process; as it is where its process can't be seen."""
    pid = subject.runtime.pid
    if not isinstance(pid, Known):
        return subject
    limits = read_limits(system, pid.value)
    allowed, quota = limits.cpu.allowed_cpus, limits.cpu.quota_cpus
    if quota == NO_QUOTA and isinstance(allowed, Known):  # it may use all the time of its processors
        quota = reported(float(allowed.value), f"{allowed.source}, and {NO_QUOTA.why}")
    runtime = msgspec.structs.replace(
        subject.runtime, allowed_cpus=allowed, quota_cpus=quota, memory_limit_bytes=limits.memory.limit_bytes
    )
    return msgspec.structs.replace(subject, runtime=runtime)


def _bytes_by_node(system: System, pid: int) -> Fact[dict[str, int]]:
    if len(read_nodes(system)) <= 1:  # then nobody asks: the kernel walks through all pages to tell
        return not_found("there is one memory node")
    path = f"/proc/{pid}/numa_maps"
    return reported(parse_bytes_by_node(read_text(system, path, NUMA_MAPS_LIMIT_BYTES)), path)


def _build_features(system: System, pid: int) -> Fact[list[str]]:
    """What the mapped CPU library was built for: by its name, where that tells, else by its code."""
    path = f"/proc/{pid}/maps"
    maps = read_text(system, path, MAPS_LIMIT_BYTES)
    if named := parse_cpu_library(maps):
        return reported(named[1], f"{path}: {named[0]}")
    coded = read_code_features(system, pid, maps)
    if coded is None:
        return not_found(f"{path} has no library whose name or code tells what it was built for")
    return measured(coded[1], f"the code of {coded[0]}")


def _disk_read_bytes(system: System, runtime: Runtime, pid: int) -> Fact[int]:
    """Only of a server that reads its model itself: others have it read by processes that they start."""
    path = f"/proc/{pid}/io"
    if runtime.name.value_or("") != "llama.cpp":
        return runtime.disk_read_bytes
    try:
        counted = parse_numbers(read_text(system, path)).get("read_bytes")
    except LookError as error:
        return unknown(error, "run unslow as the same user or as root")
    return not_found(f"{path} does not count what disks give") if counted is None else reported(counted, path)


def read_model_disks(system: System, subjects: Iterable[Subject]) -> tuple[Disk, ...]:
    """One for each folder with the model of a process that is on this machine; in a container by its own mounts."""
    tables: dict[str, str] = {}
    for subject in subjects:
        path, pid = subject.model.path.value_or(""), subject.runtime.pid
        if isinstance(pid, Known) and posixpath.isabs(path):
            boxed = bool(subject.runtime.container.value_or(""))
            tables.setdefault(posixpath.dirname(path), f"/proc/{pid.value}/mountinfo" if boxed else MOUNT_TABLE)
    return tuple(read_disk(system, folder, table) for folder, table in list(tables.items())[:MOST_MODELS])
