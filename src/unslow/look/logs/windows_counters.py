"""Windows' counters of GPU memory: `typeperf`, `Get-Counter` and the lists of `Get-CimInstance`."""

import csv
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.values import Fact, reported
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.found_blocks import form, seen_gpus
from unslow.look.logs.gpu_builder import MOST_GPUS, gpu_of
from unslow.look.logs.numbered import numbered_lines

SOURCE = "performance counters"

_FORMS = (
    form(
        r"PDH-CSV|(?i:GPU (?:Adapter|Process) Memory\()|(?<!\S)Name\s*:\s*(?:pid_\d+_)?luid_",
        r"luid_|Usage\s*:|\",\"|^\W*\d+(?:[.,]\d+)?\W*$",
    ),
)
_INSTANCE = r"((?:pid_\d{1,10}_)?luid_0x[0-9a-f]{1,16}_0x[0-9a-f]{1,16})\w{0,60}"
_PATH = re.compile(rf"gpu (adapter|process) memory\({_INSTANCE}\)\\(dedicated|shared) usage", re.IGNORECASE)
_ADAPTER = re.compile(r"luid_0x[0-9a-f]+_0x[0-9a-f]+", re.IGNORECASE)
_PID = re.compile(r"pid_(\d{1,10})_")
_NUMBER = re.compile(r"(?<![\w.])(\d{1,18})(?:[.,]\d{1,9})?(?![\w.])")
_NAME = re.compile(rf"(?<!\S)Name\s*:\s*{_INSTANCE}", re.IGNORECASE)
_USAGE = re.compile(r"(?<!\S)(Dedicated|Shared)Usage\s*:\s*(\d{1,18})\b")
_KINDS = {"dedicated": "vram_used_bytes", "shared": "shared_used_bytes"}
_MOST_PROCESSES = 1024


class Reading(NamedTuple):
    """One counter: whose it is, what it counts, and its bytes."""

    source: str
    instance: str
    kind: str
    size: int


def parse_readings(text: str, source: str = SOURCE, first_line: int = 1) -> list[Reading]:
    """Every counter of GPU memory in the text; the last value of each counts."""
    found: dict[tuple[str, str], Reading] = {}
    for parse in (_of_typeperf, _of_get_counter, _of_lists):
        for reading in parse(text, source, first_line):
            found[reading.instance, reading.kind] = reading
    return list(found.values())


def parse_gpus(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """One GPU for each adapter that holds memory, in order of appearance; the counters do not name it."""
    return gpus_of(parse_readings(text, source, first_line))


def gpus_of(readings: list[Reading]) -> tuple[Gpu, ...]:
    """The adapters of the readings; those that hold nothing are software ones, such as the basic renderer."""
    adapters: dict[str, dict[str, Fact[Any]]] = {}
    for reading in readings:
        if not _PID.match(reading.instance):
            adapters.setdefault(reading.instance, {})[reading.kind] = reported(reading.size, reading.source)
    holding = [(luid, facts) for luid, facts in adapters.items() if any(fact.value_or(0) for fact in facts.values())]
    return tuple(_gpu(index, luid, facts, readings) for index, (luid, facts) in enumerate(holding[:MOST_GPUS]))


def _gpu(index: int, luid: str, facts: dict[str, Fact[Any]], readings: list[Reading]) -> Gpu:
    own = [reading for reading in readings if _PID.match(reading.instance) and reading.instance.endswith(luid)]
    source = next(reading.source for reading in readings if reading.instance == luid)
    processes = {"processes": reported(_processes(own), own[0].source)} if own else {}
    return gpu_of(index, "", source, {**facts, **processes})


def _processes(readings: list[Reading]) -> list[GpuProcess]:
    held: dict[int, dict[str, Fact[Any]]] = {}
    for reading in readings:
        pid = _PID.match(reading.instance)
        name = "vram_bytes" if reading.kind == "vram_used_bytes" else "shared_bytes"
        if pid:
            held.setdefault(int(pid[1]), {})[name] = reported(reading.size, reading.source)
    holding = ((pid, facts) for pid, facts in held.items() if any(fact.value_or(0) for fact in facts.values()))
    return [GpuProcess(pid=pid, **facts) for pid, facts in list(holding)[:_MOST_PROCESSES]]


def adapter(instance: str) -> str:
    """The adapter that an instance of a counter is about, in small letters."""
    match = _ADAPTER.search(instance)
    return match[0].lower() if match else ""


def _reading(path: re.Match[str], digits: str, source: str) -> Reading:
    return Reading(source, path[2].lower(), _KINDS[path[3].lower()], int(digits))


def _of_typeperf(text: str, source: str, first_line: int) -> Iterator[Reading]:
    """A line of quoted counters, then lines of quoted values."""
    paths: list[str] = []
    for line in numbered_lines(text.replace("\r", ""), source, first_line):
        start = line.text.find('"')
        fields = next(csv.reader([line.text[start:]]), []) if start >= 0 and '","' in line.text else []
        if fields and "PDH-CSV" in fields[0]:
            paths = fields
        elif len(fields) == len(paths) > 0:
            for path, value in zip(paths, fields, strict=True):
                match, number = _PATH.search(path), _NUMBER.search(value)
                if match and number:
                    yield _reading(match, number[1], line.source)


def _of_get_counter(text: str, source: str, first_line: int) -> Iterator[Reading]:
    """A path that ends in a colon, and its value on the next line."""
    path: re.Match[str] | None = None
    for line in numbered_lines(text, source, first_line):
        match = _PATH.search(line.text)
        if match:
            path = match if '"' not in line.text else None
        elif path and (number := _NUMBER.fullmatch(line.text.strip())):
            yield _reading(path, number[1], line.source)
            path = None


def _of_lists(text: str, source: str, first_line: int) -> Iterator[Reading]:
    """`Name : …` and below it `DedicatedUsage : …`, as Format-List prints them."""
    instance = ""
    for line in numbered_lines(text, source, first_line):
        if name := _NAME.search(line.text):
            instance = name[1].lower()
        elif instance and (usage := _USAGE.search(line.text)):
            yield Reading(line.source, instance, _KINDS[usage[1].lower()], int(usage[2]))


def parse_text(text: Text) -> Seen:
    """The adapters of every output of such counters in a text."""
    return seen_gpus(text, _FORMS, parse_gpus)
