"""Ollama's server log, from 0.1 to today; since 0.30 with llama.cpp's own lines, for another dialect."""

import re
import statistics
from typing import Any

import msgspec

from unslow.facts.machine import Cpu, Gpu, Machine, Memory, System
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, estimated_fact, not_found, reported_fact
from unslow.look.logs.dialect import LineDialect, LogFacts
from unslow.look.logs.llama_cpp.start_lines import gpu_of_device
from unslow.look.logs.ollama import load_lines, server_lines
from unslow.look.logs.ollama.state import Reading, parse_line

NAME = "Ollama"
HOW_TO_GET = "the server's log from its start: `journalctl -u ollama --no-pager`, or ~/.ollama/logs/server.log"
RULES = server_lines.RULES + load_lines.RULES
_VENDORS = {"cuda": "NVIDIA", "rocm": "AMD", "metal": "Apple", "oneapi": "Intel"}
_NUMBERS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")  # ROCm on Linux was named by the numbers of its PCI device
_MOST_WARNINGS = 40
_FEWEST_WAITS = 3  # Requests: the wait of one says little
_OWN = re.compile(
    r"\bsource=\w{1,40}\.go:\d|\[GIN\] |\w\.go:\d+: (?:INFO|WARN|ERROR) |\blevel=(?:INFO|WARN|ERROR|DEBUG) "
)


class OllamaReader:
    """Reads the lines that Ollama itself writes; those of llama.cpp in between belong to another dialect."""

    def __init__(self) -> None:
        self._reading = Reading()

    def take(self, line: str, where: str) -> bool:
        """Read one line; whether Ollama wrote it: a sentence that quotes it is read, and left to others too."""
        takers = [(take, own) for needles, take, own in RULES if any(needle in line for needle in needles)]
        if not takers:
            return False
        parsed, written = parse_line(line, where), _OWN.search(line) is not None
        taken = [own for take, own in takers if take(self._reading, parsed)]
        if any(taken) or (taken and written):
            self._reading.surely = self._reading.surely or where
        self._reading.recognised += bool(taken)
        return bool(taken) and written

    def skip(self, needle: str, count: int) -> None:  # noqa: ARG002 (the contract of a reader)
        """The last load and the last requests are always shown; how many requests there were is no longer known."""
        self._reading.requests_skipped |= needle == "[GIN]"

    def log_facts(self, source: str) -> LogFacts:
        reading = self._reading
        if not reading.recognised:
            return LogFacts()
        run: dict[str, Any] = {}
        load = reading.load if reading.load.seconds or not reading.loads else reading.loads[-1]
        if load.seconds:
            run["load_s"] = load.seconds
        if reading.requests:
            run["request_s"] = reported_fact(tuple(reading.requests), reading.requests_where)
        if len(reading.waits.seconds) >= _FEWEST_WAITS and not reading.requests_skipped:
            waited, count = statistics.median(reading.waits.seconds), len(reading.waits.seconds)
            run["queue_s"] = estimated_fact(waited, f"{reading.requests_where}: the last {count} requests")
        subject = Subject(
            runtime=Runtime().with_facts(**_runtime(reading, source)),
            model=Model(**reading.load.model),
            run=Run(**run),
            contradictions=(reading.load.context_cut,) if reading.load.context_cut else (),
        )
        gpus = _gpus(reading)
        machine = Machine(
            gpus=reported_fact(gpus, next(iter(reading.devices.values()))[1]) if gpus else NOT_LOOKED,
            cpu=Cpu(**reading.cpu),
            memory=Memory(**reading.memory),
            system=System(**reading.system),
        )
        return LogFacts(machine=machine, subject=subject, lines=reading.recognised)


def _runtime(reading: Reading, source: str) -> dict[str, Any]:
    load = reading.load if reading.load.kinds or not reading.loads else reading.loads[-1]
    facts: dict[str, Any] = {**reading.process, **load.facts}
    on_gpu, whole = load.facts.get("gpu_layers"), load.facts.get("layers")
    if on_gpu and whole and on_gpu.value > whole.value:
        # A runner is sometimes told of more than there are
        facts["gpu_layers"] = reported_fact(whole.value, on_gpu.source)
    if reading.surely:
        facts["name"] = reported_fact(NAME, reading.surely)
        if "gpu_layers" not in facts:
            facts["gpu_layers"] = not_found(f"{source} has no line of Ollama that says it", HOW_TO_GET)
    if reading.devices or reading.devices_listed:
        where = reading.devices_listed or next(iter(reading.devices.values()))[1]
        facts["devices"] = reported_fact([device for device, _ in reading.devices.values()], where)
    if buffers := list(load.buffers.values()):
        facts["buffers"] = reported_fact([buffer for buffer, _ in buffers], buffers[0][1])
    if reading.refused and not reading.devices:
        facts["gpu_refused"] = reading.refused[1]
    elif reading.devices_listed:  # one that was turned down does not matter where another one serves
        facts["gpu_refused"] = not_found(f"{source} lists a GPU that it uses")
    counted = "" if reading.requests_skipped else reading.requests_where
    if loads := [load.past(counted) for load in (*reading.loads, reading.load) if load.kinds]:
        facts["loads"] = reported_fact(loads, loads[0].source)
    if words := [word for kind in reading.warnings.values() for word in kind]:
        facts["warnings"] = reported_fact(words[:_MOST_WARNINGS], reading.warnings_where)
    return facts


def _gpus(reading: Reading) -> tuple[Gpu, ...]:
    gpus = []
    for index, (device, where) in enumerate(reading.devices.values()):
        vendor = _VENDORS.get(device.library.lower(), "")
        gpu = gpu_of_device(index, device, vendor, where)
        if vendor != "NVIDIA":
            gpu = msgspec.structs.replace(gpu, compute_capability=NOT_LOOKED)
        if _NUMBERS.fullmatch(device.description):
            gpu = msgspec.structs.replace(gpu, name=NOT_LOOKED)
        gpus.append(gpu)
    return tuple(gpus)


DIALECT = LineDialect(
    needles=tuple(dict.fromkeys(needle for needles, _, _ in RULES for needle in needles)),
    start=OllamaReader,
    chatty=frozenset(
        {
            "[GIN]",
            "total time =",
            "| new prompt, ",
            "level=WARN",
            "level=ERROR",
            "truncating input",
            "VRAM usage didn't recover",
            "evicting",
        }
    ),
)
