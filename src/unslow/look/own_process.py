"""What the process of a runtime shows beyond its words: limits, switches, libraries, and where its memory lies."""

import msgspec

from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Fact, Known, first_known, measured, not_found, reported
from unslow.look.kernel.files import parse_numbers
from unslow.look.kernel.ggml_libraries import parse_cpu_library
from unslow.look.kernel.machine_code import read_code_features
from unslow.look.kernel.numa_maps import read_bytes_by_node, read_nodes
from unslow.look.limits import with_limits
from unslow.look.processes import read_process
from unslow.look.system import LookError, System, unknown
from unslow.look.system.door import read_text
from unslow.look.units import unit_fact

GRAPHS_OFF = "GGML_CUDA_DISABLE_GRAPHS"
"""Whatever its value, ggml's CUDA backend then starts every kernel by itself."""
MAPS_LIMIT_BYTES = 4 * 1024**2


def with_own_process(system: System, subject: Subject) -> Subject:
    """The subject with what its process shows; as it is where its process can't be seen."""
    subject = with_limits(system, subject)
    runtime, pid = subject.runtime, subject.runtime.pid
    if not isinstance(pid, Known):
        return subject
    changed = msgspec.structs.replace(
        runtime,
        eager=first_known(runtime.eager, _eager(runtime)),
        build_features=first_known(runtime.build_features, _build_features(system, pid.value)),
        unit=runtime.unit if runtime.unit != NOT_LOOKED else unit_fact(read_process(system, pid.value)),
        bytes_by_node=_bytes_by_node(system, pid.value),
        disk_read_bytes=_disk_read_bytes(system, runtime, pid.value),
    )
    return msgspec.structs.replace(subject, runtime=changed)


def _eager(runtime: Runtime) -> Fact[bool]:
    environment = runtime.environment
    if isinstance(environment, Known) and GRAPHS_OFF in environment.value:
        return reported(True, f"{environment.source}: {GRAPHS_OFF}")  # noqa: FBT003 (the value of a fact)
    return runtime.eager


def _build_features(system: System, pid: int) -> Fact[list[str]]:
    """What the mapped CPU library was built for: by its name, where that tells, else by its code."""
    path = f"/proc/{pid}/maps"
    try:
        maps = read_text(system, path, MAPS_LIMIT_BYTES)
        if named := parse_cpu_library(maps):
            return reported(named[1], f"{path}: {named[0]}")
        coded = read_code_features(system, pid, maps)
    except LookError as error:
        return unknown(error)
    if coded is None:
        return not_found(f"{path} has no library whose name or code tells what it was built for")
    return measured(coded[1], f"the code of {coded[0]}")


def _bytes_by_node(system: System, pid: int) -> Fact[dict[str, int]]:
    """By node, where there are several: the kernel walks through all pages to tell, so nobody asks for one node."""
    try:
        if len(read_nodes(system)) < 2:  # noqa: PLR2004 (one node has no far side)
            return not_found("there is one memory node")
        return reported(read_bytes_by_node(system, pid), f"/proc/{pid}/numa_maps")
    except LookError as error:
        return unknown(error)


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
