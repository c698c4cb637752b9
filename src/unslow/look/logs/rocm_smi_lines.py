"""`rocm-smi -a` and its parts: lines of `GPU[0] : key: value`, then a table of processes."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.units import MHZ
from unslow.facts.values import Known, reported
from unslow.look.logs.gpu_builder import MOST_GPUS, gpu_of
from unslow.look.logs.numbered import Numbered, numbered_lines
from unslow.look.logs.nvidia_gpu import gpu_process
from unslow.look.logs.rocm_keys import Entry, facts_of, with_free

SOURCE = "rocm-smi"
_LINE = re.compile(r"\bGPU\[(\d{1,3})\]\s{0,16}:\s*(\S.*)")
_KEY = re.compile(r"([A-Za-z][^:]{1,60}?)\s*:\s*(.+)")
_SUPPORTED = re.compile(r"Supported (sclk|mclk) frequencies", re.IGNORECASE)
_STEP = re.compile(r"(?:\d{1,2}|S):\s*(\d{1,6})\s*mhz", re.IGNORECASE)
_PROCESS = re.compile(r"(?<!\S)(\d{1,10})\s+(\S.{0,60}?)\s+(\d{1,3})\s+(\d{1,18})\s+\d{1,18}\b")
_MOST = {"sclk": "clock_max_hz", "mclk": "memory_clock_max_hz"}


def parse_lines(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs that such lines speak of; none where the text is something else."""
    lines = list(numbered_lines(text, source, first_line))
    entries: dict[int, list[Entry]] = {}
    steps: dict[tuple[int, str], tuple[int, str]] = {}
    clock = ""
    for index, line in _gpu_lines(lines):
        if heading := _SUPPORTED.search(line.text):
            clock = heading[1].lower()
        elif step := _STEP.match(line.text):
            mhz = int(step[1])
            if clock and mhz > steps.get((index, clock), (0, ""))[0]:
                steps[index, clock] = (mhz, line.source)
        elif entry := _KEY.match(line.text):
            clock = ""
            entries.setdefault(index, []).append(Entry(line.source, entry[1], entry[2]))
    gpus = [_gpu(index, entries[index], steps) for index in sorted(entries)[:MOST_GPUS]]
    known = tuple(gpu for gpu in gpus if gpu is not None)
    return (_with_processes(known[0], lines),) if len(known) == 1 else known


def _gpu_lines(lines: Iterable[Numbered]) -> Iterator[tuple[int, Numbered]]:
    for line in lines:
        match = _LINE.search(line.text)
        if match:
            yield int(match[1]), Numbered(line.source, match[2])


def _gpu(index: int, entries: list[Entry], steps: dict[tuple[int, str], tuple[int, str]]) -> Gpu | None:
    facts = facts_of(entries)
    for clock, name in _MOST.items():
        if (index, clock) in steps:
            mhz, source = steps[index, clock]
            facts[name] = reported(mhz * MHZ, source)
    return gpu_of(index, "AMD", entries[0].source, with_free(facts)) if facts else None


def _with_processes(gpu: Gpu, lines: list[Numbered]) -> Gpu:
    """The only GPU with the processes of the table, which does not say on which GPU each of them is."""
    start = next((n for n, line in enumerate(lines) if "PROCESS NAME" in line.text and "VRAM USED" in line.text), None)
    if start is None or isinstance(gpu.processes, Known):
        return gpu
    found: list[GpuProcess] = []
    for line in lines[start + 1 :]:
        match = _PROCESS.search(line.text)
        if not match:
            break
        size = reported(int(match[4]), line.source)
        found.append(gpu_process(int(match[1]), reported(match[2], line.source), size))
    return msgspec.structs.replace(gpu, processes=reported(found, lines[start].source))
