"""What the process of a server shows of itself, whatever runtime it is."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from unslow.facts.runtime import Runtime
from unslow.facts.values import KIB, NOT_LOOKED, Fact, Known, not_found, reported
from unslow.look.kernel.processors import parse_cpu_list
from unslow.look.processes import Process
from unslow.look.system import LookError

T = TypeVar("T")


def process_facts(
    process: Process,
    name: Known[str],
    without_secrets: Callable[[Sequence[str]], list[str]],
    url: Fact[str],
    log_path: Fact[str] = NOT_LOOKED,
) -> Runtime:
    """What the process itself shows; its keys are for nobody to see."""
    command = process.command()
    return Runtime(
        name=name,
        pid=reported(process.pid, "/proc"),
        url=url,
        command=reported(without_secrets(command.value), command.source) if isinstance(command, Known) else command,
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
        "Pid": reported(int(pid[0]), f"{source}: Pid") if pid else not_found(f"{source} does not say Pid"),
        "VmRSS": reported(int(resident[1]) * KIB, f"{source}: VmRSS") if resident else missing,
        "Cpus_allowed_list": reported(cpus, f"{source}: Cpus_allowed_list") if cpus else missing,
    }
