"""What the process of a running server shows: its limits, its memory by node, its build, the disk of its model."""

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from unslow.facts.machine import Disk
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import KIB, NOT_LOOKED, Fact, Known, first_known, measured_fact, not_found, reported_fact
from unslow.look.command_writer.starters import unit_fact
from unslow.look.kernel import parse_numbers
from unslow.look.kernel import processes as kernel
from unslow.look.kernel.processors import parse_cpu_list, read_thread_names
from unslow.look.probes.block_devices import read_disk
from unslow.look.probes.cgroup import NO_QUOTA, read_limits
from unslow.look.processes import Process, read_process
from unslow.look.system import LookError, System, read_text, try_fact, unknown

GRAPHS_OFF = "GGML_CUDA_DISABLE_GRAPHS"  # Whatever its value, ggml's CUDA backend then starts every kernel by itself
MAPS_LIMIT_BYTES = 4 * 1024**2
_LAVAPIPE, _LLVMPIPE = "libvulkan_lvp", "llvmpipe"
MOST_MODELS = 16
T = TypeVar("T")


def with_own_process(system: System, subject: Subject) -> Subject:
    """The subject with what its process shows; as it is where its process cannot be seen."""
    subject = with_limits(system, subject)
    runtime, pid = subject.runtime, subject.runtime.process.pid
    if not isinstance(pid, Known):
        return subject
    eager, environment = runtime.compute.eager, runtime.process.environment
    if not isinstance(eager, Known) and isinstance(environment, Known) and GRAPHS_OFF in environment.value:
        eager = reported_fact(True, f"{environment.source}: {GRAPHS_OFF}")  # noqa: FBT003 (the value of a fact)
    changed = runtime.with_facts(
        eager=eager,
        build_features=first_known(runtime.build.features, try_fact(_build_features, system, pid.value)),
        unit=runtime.process.unit if runtime.process.unit != NOT_LOOKED else unit_fact(read_process(system, pid.value)),
        software_renderer=try_fact(_software_renderer, system, pid.value),
        bytes_by_node=try_fact(_bytes_by_node, system, pid.value),
        disk_read_bytes=_disk_read_bytes(system, runtime, pid.value),
    )
    return msgspec.structs.replace(subject, runtime=changed)


def with_limits(system: System, subject: Subject) -> Subject:
    """The subject with the cpuset, quota and memory of its process; as it is where its process cannot be seen."""
    pid = subject.runtime.process.pid
    if not isinstance(pid, Known):
        return subject
    limits = read_limits(system, pid.value)
    allowed, quota = limits.cpu.allowed_cpus, limits.cpu.quota_cpus
    if quota == NO_QUOTA and isinstance(allowed, Known):  # it may use all the time of its processors
        quota = reported_fact(float(allowed.value), f"{allowed.source}, and {NO_QUOTA.why}")
    memory = limits.memory.limit_bytes
    runtime = subject.runtime.with_facts(allowed_cpus=allowed, quota_cpus=quota, memory_limit_bytes=memory)
    return msgspec.structs.replace(subject, runtime=runtime)


def _bytes_by_node(system: System, pid: int) -> Fact[dict[str, int]]:
    if len(kernel.read_nodes(system)) <= 1:  # then it is not asked: the kernel walks through all pages for it
        return not_found("there is one memory node")
    path = f"/proc/{pid}/numa_maps"
    return reported_fact(kernel.parse_bytes_by_node(read_text(system, path, kernel.NUMA_MAPS_LIMIT_BYTES)), path)


def _build_features(system: System, pid: int) -> Fact[list[str]]:
    """What the mapped CPU library was built for: by its name, where that tells, else by its code."""
    path = f"/proc/{pid}/maps"
    maps = read_text(system, path, MAPS_LIMIT_BYTES)
    if named := kernel.parse_cpu_library(maps):
        return reported_fact(named[1], f"{path}: {named[0]}")
    coded = kernel.read_code_features(system, pid, maps)
    if coded is None:
        return not_found(f"{path} has no library whose name or code shows what it was built for")
    return measured_fact(coded[1], f"the code of {coded[0]}")


def _software_renderer(system: System, pid: int) -> Fact[str]:
    """Mesa's: every Vulkan program maps its library, but only one that computes on it has its threads."""
    maps = f"/proc/{pid}/maps"
    if _LAVAPIPE not in read_text(system, maps, MAPS_LIMIT_BYTES):
        return not_found(f"{maps} has no {_LAVAPIPE}")
    threads = f"/proc/{pid}/task/*/comm"
    named = any(name.startswith(_LLVMPIPE) for name in read_thread_names(system, pid))
    return reported_fact(_LLVMPIPE, threads) if named else not_found(f"{threads}: none is {_LLVMPIPE}'s")


def _disk_read_bytes(system: System, runtime: Runtime, pid: int) -> Fact[int]:
    """Only of a process that reads its model itself, be it one that Ollama started: others have it read by others."""
    path = f"/proc/{pid}/io"
    program = "".join(runtime.process.command.value_or([])[:1])
    own = runtime.name.value_or("") == "llama.cpp" or program.endswith(("/llama-server", "llama-server.exe"))
    if not own:
        return runtime.process.disk_read_bytes
    try:
        counted = parse_numbers(read_text(system, path)).get("read_bytes")
    except LookError as error:
        return unknown(error, "run unslow as the same user or as root")
    return not_found(f"{path} does not count disk reads") if counted is None else reported_fact(counted, path)


def read_model_disks(system: System, subjects: Iterable[Subject]) -> tuple[Disk, ...]:
    """One for each folder with the model of a process that is on this machine; in a container by its own mounts."""
    tables: dict[str, str] = {}
    for subject in subjects:
        path, pid = subject.model.path.value_or(""), subject.runtime.process.pid
        if isinstance(pid, Known) and posixpath.isabs(path):
            boxed = bool(subject.runtime.process.container.value_or(""))
            tables.setdefault(posixpath.dirname(path), f"/proc/{pid.value}/mountinfo" if boxed else kernel.MOUNT_TABLE)
    return tuple(read_disk(system, folder, table) for folder, table in list(tables.items())[:MOST_MODELS])


def process_facts(
    process: Process,
    name: Known[str],
    without_secrets: Callable[[Sequence[str]], list[str]],
    url: Fact[str],
    log_path: Fact[str] = NOT_LOOKED,
) -> Runtime:
    """What the process itself shows; without its keys."""
    command = process.command()
    return Runtime().with_facts(
        name=name,
        pid=reported_fact(process.pid, "/proc"),
        url=url,
        command=reported_fact(without_secrets(command.value), command.source)
        if isinstance(command, Known)
        else command,
        environment=process.environment(),
        log_path=log_path,
        container=process.container(),
    )


def read_in_roots(roots: Sequence[str], read: Callable[[str], T]) -> T | None:
    """What can be read with one of these before a path; None where it can be with none of them."""
    for root in roots:
        with suppress(LookError):
            return read(root)
    return None


def resident_bytes(process: Process) -> Fact[int]:
    """The memory that it holds."""
    return parse_status(process.text("status"), f"/proc/{process.pid}/status")["VmRSS"]


def parse_status(text: str, source: str) -> dict[str, Fact[Any]]:
    """Process id, resident bytes and allowed CPUs of /proc/PID/status."""
    fields = dict(re.findall(r"^(\w+):[ \t]*(.*)$", text, re.MULTILINE))
    missing = not_found(f"{source} does not say")
    pid = re.fullmatch(r"\d{1,15}", fields.get("Pid", "").strip())
    resident = re.fullmatch(r"(\d{1,15}) kB", fields.get("VmRSS", ""))
    cpus = len(parse_cpu_list(fields.get("Cpus_allowed_list", "")))
    return {
        "Pid": reported_fact(int(pid[0]), f"{source}: Pid") if pid else not_found(f"{source} does not say Pid"),
        "VmRSS": reported_fact(int(resident[1]) * KIB, f"{source}: VmRSS") if resident else missing,
        "Cpus_allowed_list": reported_fact(cpus, f"{source}: Cpus_allowed_list") if cpus else missing,
    }
