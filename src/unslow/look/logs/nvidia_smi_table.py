"""The boxed table of plain `nvidia-smi`, old and new: two or three lines for each GPU, then the processes."""

import re
from collections.abc import Iterator
from typing import Any

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.values import NOT_LOOKED, Fact, reported
from unslow.look.logs import nvidia_values as values
from unslow.look.logs.nvidia_gpu import gpu_process, nvidia_gpu

SOURCE = "nvidia-smi"
_MOST_GPUS = 64
_DRIVER = re.compile(r"(?:Driver|KMD) Version:\s*(\d[\w.]*)")
_NAME = re.compile(r"(\d{1,3})\s+(\S.*?)\s+(?:On|Off|N/A|TCC|WDDM|MCDM|ERR!)$")
_BUS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\b")
_STATE = re.compile(r"\S+\s+(?P<temp>\S+)\s+(?P<state>P\d+|N/A|ERR!|Unknown)\s+(?P<power>\S+)\s*/\s*(?P<limit>\S+)$")
_PROCESS = re.compile(
    r"(?P<gpu>\d{1,3})\s+(?:\S+\s+\S+\s+)?(?P<pid>\d{1,10})\s+[CGM](?:\+[CGM])*\s+(?P<name>.*?)\s*(?P<used>\d+MiB|N/A)?$"
)


def parse_nvidia_smi(text: str) -> tuple[Gpu, ...]:
    """The GPUs of the table; none where the text is something else."""
    lines = values.plain_lines(text)
    driver = next((reported(m[1], SOURCE) for m in map(_DRIVER.search, lines) if m), NOT_LOOKED)
    processes = _processes(lines)
    return tuple(
        nvidia_gpu(index, SOURCE, {**facts, "driver": driver, "processes": _of_gpu(processes, index)})
        for index, facts in _gpus(lines)
    )


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]


def _gpus(lines: list[str]) -> Iterator[tuple[int, dict[str, Fact[Any]]]]:
    found = 0
    for number, line in enumerate(lines):
        match _cells(line):
            case [first, second, _] if (name := _NAME.match(first)) and _BUS.search(second) and found < _MOST_GPUS:
                found += 1
                facts = {"name": values.word(name[2], SOURCE), "bus_id": values.bus_id(second, SOURCE)}
                yield int(name[1]), facts | _state(lines[number + 1 : number + 3])


def _state(lines: list[str]) -> dict[str, Fact[Any]]:
    """Facts of the second line, and of the third where MIG has one."""
    facts: dict[str, Fact[Any]] = {}
    for place, line in enumerate(lines):
        match place, _cells(line):
            case 0, [state, memory, load]:
                facts |= _readings(state) | _memory(memory) | {"busy": values.quantity(load.split(" ")[0], "%", SOURCE)}
            case 1, ["", "", mig] if mig:
                facts["mig"] = values.enabled(mig.rstrip("*"), SOURCE)
    return facts


def _readings(cell: str) -> dict[str, Fact[Any]]:
    match = _STATE.match(cell)
    if not match:
        return {}
    return {
        "temperature_c": values.quantity(match["temp"], "C", SOURCE),
        "performance_state": values.word(match["state"], SOURCE),
        "power_w": values.quantity(match["power"], "W", SOURCE),
        "power_limit_w": values.quantity(match["limit"], "W", SOURCE),
    }


def _memory(cell: str) -> dict[str, Fact[Any]]:
    used, _, total = cell.partition("/")
    return {
        "vram_used_bytes": values.quantity(used, "MiB", SOURCE),
        "vram_total_bytes": values.quantity(total or used, "MiB", SOURCE),
    }


def _processes(lines: list[str]) -> dict[int, list[GpuProcess]] | None:
    """The processes by GPU; None where the text has no list of them."""
    start = next((n for n, line in enumerate(lines) if "| Processes:" in line), None)
    if start is None:
        return None
    found: dict[int, list[GpuProcess]] = {}
    for line in lines[start + 1 :]:
        cells = _cells(line)
        match = _PROCESS.match(cells[0]) if len(cells) == 1 else None
        if match:
            size = values.quantity(match["used"] or "", "MiB", SOURCE)
            process = gpu_process(int(match["pid"]), values.word(match["name"], SOURCE), size)
            found.setdefault(int(match["gpu"]), []).append(process)
    return found


def _of_gpu(processes: dict[int, list[GpuProcess]] | None, index: int) -> Fact[Any]:
    return NOT_LOOKED if processes is None else reported(processes.get(index, []), SOURCE)
