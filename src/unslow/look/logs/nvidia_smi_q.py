"""`nvidia-smi -q`: one indented block for each GPU."""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.values import NOT_LOOKED, Fact, Known, estimated, first_known, reported
from unslow.look.logs import nvidia_values as values
from unslow.look.logs.nvidia_gpu import gpu_process, nvidia_gpu, reasons
from unslow.look.logs.nvidia_reasons import reason_name

SOURCE = "nvidia-smi -q"
_MOST_GPUS = 64
_MOST_LINES = 20_000  # of one GPU; a real block has about 250 and 5 for each process
_DEEPEST = 16
_GPU = re.compile(r"\bGPU\s+([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])$")
_DRIVER = re.compile(r"Driver Version\s*:\s*(\d[\w.]*)")
_COLON = re.compile(r"\s*:(?:\s|$)")


class Entry(NamedTuple):
    """One line: its name under the names above it, in lower case, and its value; a heading has an empty one."""

    path: tuple[str, ...]
    value: str


def parse_nvidia_smi_q(text: str) -> tuple[Gpu, ...]:
    """The GPUs in the order of the text; none where it is something else."""
    lines = values.plain_lines(text)
    driver = next((m[1] for m in map(_DRIVER.search, lines) if m), None)
    version = reported(driver, SOURCE) if driver else NOT_LOOKED
    return tuple(_gpu(index, address, block, version) for index, (address, block) in enumerate(_blocks(lines)))


def _blocks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each GPU's address and the lines below it, without what a paste has put before every line."""
    heads = [(number, match) for number, line in enumerate(lines) if (match := _GPU.search(line))][:_MOST_GPUS]
    ends = [number for number, _ in heads[1:]] + [len(lines)]
    for (number, match), end in zip(heads, ends, strict=False):
        block = lines[number + 1 : min(end, number + 1 + _MOST_LINES)]
        yield match[1], [line[match.start() :] for line in block]


def _entries(lines: list[str]) -> list[Entry]:
    if not any(line.startswith(" ") for line in lines):  # a paste that lost its spaces: only headings give shape
        lines = [f" {line}" if _COLON.search(line) else line for line in lines]
    above: list[tuple[int, str]] = []
    entries = []
    for line in filter(None, map(str.rstrip, lines)):
        name, *value = _COLON.split(line.strip(), maxsplit=1)
        depth = len(line) - len(line.lstrip())
        above = [*(pair for pair in above if pair[0] < depth), (depth, name.casefold())][:_DEEPEST]
        entries.append(Entry(tuple(n for _, n in above), value[0].strip() if value else ""))
    return entries


def _gpu(index: int, address: str, lines: list[str], driver: Fact[Any]) -> Gpu:
    entries = [entry for entry in _entries(lines) if "mig device" not in entry.path]
    texts: dict[tuple[str, ...], str] = {}
    for entry in entries:
        texts.setdefault(entry.path[-1:], entry.value)
        texts.setdefault(entry.path[-2:], entry.value)
    facts = {name: _fact(texts, name) for name in _PATHS}
    facts |= _reasons(entries) | _thresholds(texts, facts)
    facts |= {"driver": driver, "bus_id": values.bus_id(address, SOURCE), "processes": _processes(entries)}
    return nvidia_gpu(index, SOURCE, facts)


def _fact(texts: dict[tuple[str, ...], str], name: str) -> Fact[Any]:
    read, *paths = _PATHS[name]
    return first_known(*(read(texts[path]) for path in paths if path in texts))


def _in(unit: str) -> Callable[[str], Fact[Any]]:
    return lambda text: values.quantity(text, unit, SOURCE)


def _word(text: str) -> Fact[Any]:
    return values.word(text, SOURCE)


def _enabled(text: str) -> Fact[Any]:
    return values.enabled(text, SOURCE)


# How to read each fact, and where it can stand: the newest drivers' words first.
_PATHS: dict[str, tuple[Any, ...]] = {
    "name": (_word, ("product name",)),
    "vram_total_bytes": (_in("MiB"), ("fb memory usage", "total")),
    "vram_used_bytes": (_in("MiB"), ("fb memory usage", "used")),
    "vram_free_bytes": (_in("MiB"), ("fb memory usage", "free")),
    "vram_reserved_bytes": (_in("MiB"), ("fb memory usage", "reserved")),
    "busy": (_in("%"), ("utilization", "gpu")),
    "memory_busy": (_in("%"), ("utilization", "memory")),
    "clock_hz": (_in("MHz"), ("clocks", "sm"), ("clocks", "graphics")),
    "clock_max_hz": (_in("MHz"), ("max clocks", "sm"), ("max clocks", "graphics")),
    "memory_clock_hz": (_in("MHz"), ("clocks", "memory")),
    "memory_clock_max_hz": (_in("MHz"), ("max clocks", "memory")),
    "performance_state": (_word, ("performance state",)),
    "temperature_c": (_in("C"), ("temperature", "gpu current temp"), ("temperature", "gpu")),
    "memory_temperature_c": (_in("C"), ("temperature", "memory current temp")),
    "temperature_slowdown_c": (_in("C"), ("temperature", "gpu slowdown temp")),
    "temperature_shutdown_c": (_in("C"), ("temperature", "gpu shutdown temp")),
    "temperature_margin_c": (_in("C"), ("temperature", "gpu t.limit temp")),
    "power_w": (
        _in("W"),
        ("gpu power readings", "average power draw"),
        ("gpu power readings", "power draw"),
        ("power readings", "power draw"),
        ("gpu power readings", "instantaneous power draw"),
    ),
    "power_limit_w": (
        _in("W"),
        ("gpu power readings", "current power limit"),
        ("power readings", "enforced power limit"),
        ("power readings", "power limit"),
    ),
    "power_limit_default_w": (
        _in("W"),
        ("gpu power readings", "default power limit"),
        ("power readings", "default power limit"),
    ),
    "pcie_generation": (_in(""), ("pcie generation", "current")),
    "pcie_generation_max": (_in(""), ("pcie generation", "max")),
    "pcie_width": (_in("x"), ("link width", "current")),
    "pcie_width_max": (_in("x"), ("link width", "max")),
    "pcie_transmit_bytes_per_s": (_in("KB/s"), ("tx throughput",)),
    "pcie_receive_bytes_per_s": (_in("KB/s"), ("rx throughput",)),
    "ecc": (_enabled, ("ecc mode", "current")),
    "mig": (_enabled, ("mig mode", "current")),
}


def _thresholds(texts: dict[tuple[str, ...], str], facts: dict[str, Fact[Any]]) -> dict[str, Fact[Any]]:
    """Newer GPUs print a threshold as its distance below T.Limit zero; with the margin it is a temperature again."""
    now, margin = facts["temperature_c"], facts["temperature_margin_c"]
    found: dict[str, Fact[Any]] = {}
    for which in ("slowdown", "shutdown"):
        below = values.quantity(texts.get(("temperature", f"gpu {which} t.limit temp"), ""), "C", SOURCE)
        if isinstance(now, Known) and isinstance(margin, Known) and isinstance(below, Known):
            found[f"temperature_{which}_c"] = estimated(now.value + margin.value - below.value, SOURCE)
    return found


def _reasons(entries: list[Entry]) -> dict[str, Fact[Any]]:
    """The active reasons, also those of drivers newer than this program."""
    sections = ("clocks event reasons", "clocks throttle reasons")
    inside = [entry for entry in entries if len(entry.path) > 1 and any(s in entry.path[:-1] for s in sections)]
    if not inside:
        return {}
    return reasons([reason_name(e.path[-1]) for e in inside if e.value.casefold() == "active"], SOURCE)


def _processes(entries: list[Entry]) -> Fact[Any]:
    sections = [entry for entry in entries if "processes" in entry.path]
    if not sections:
        return NOT_LOOKED
    if sections[0].value and sections[0].value.casefold() != "none":
        return _word(sections[0].value)
    found: list[dict[str, str]] = []
    for entry in sections:
        if entry.path[-1] == "process id":
            found.append({})
        if found:
            found[-1][entry.path[-1]] = entry.value
    return reported([process for one in found for process in _process(one)], SOURCE)


def _process(texts: dict[str, str]) -> Iterator[GpuProcess]:
    pid = values.process_id(texts["process id"])
    if pid is not None:
        size = values.quantity(texts.get("used gpu memory", ""), "MiB", SOURCE)
        yield gpu_process(pid, _word(texts.get("name", "")), size)
