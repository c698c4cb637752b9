"""Anything that nvidia-smi prints, in any mixture: its boxed table, `-q`, and its rows."""

import re
from typing import Any, NamedTuple

from unslow.facts.machine import Gpu, GpuProcess, Machine, System
from unslow.facts.values import NOT_LOOKED, Fact, Known, estimated_fact, first_known, reported_fact
from unslow.look.logs import nvidia_smi_rows as values
from unslow.look.logs.dialect import LogFacts, Text
from unslow.look.logs.gpu_facts import by_index, gpu_of, gpu_process, reason_facts
from unslow.look.logs.nvidia_smi_rows import quantity_in
from unslow.look.logs.text_blocks import block_text, facts_at_place, spans_of

Q_SOURCE = "nvidia-smi -q"
TABLE_SOURCE = "nvidia-smi"
_MOST_GPUS = 64
_MOST_LINES = 20_000  # of one GPU; a real block has about 250 and 5 for each process
_DEEPEST = 16
# Each form of output: how it begins, and how its further lines look.
_BOX = r"NVIDIA-SMI\s+[\d\[]|[|+]\s*GPU\s+Name\s"
_TREE = r"NVSMI LOG|^\s*GPU\s+[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:"
_DMON = r"#\s*(?:Date,?\s+Time,?\s+|Time,?\s+)?gpu\b"
_QUERY = (
    r"--query-(?:gpu|compute-apps)="
    r"|\b(?:index|name|timestamp|[a-z]{1,40}\.[a-z.]{1,60})\b[^,]{0,20}, {0,40}[a-z_.]{1,100}(?: \[\w{1,20}\])?(?:,|$)"
)
_FORMS = (
    (re.compile(_BOX), re.compile(r"[|+].{0,400}[|+]\s*$|^\s*[+|][-=]")),
    (re.compile(_TREE), re.compile(rf"\s:\s|\s:$|^\s+\w|{_TREE}")),
    (re.compile(_DMON), re.compile(r"^\s*#|\d\s+[\d-]")),
    (re.compile(_QUERY), re.compile(",")),
)
_ON_WINDOWS = re.compile(
    r"\bDriver-Model\b|\bTCC/WDDM\b|\s(?:WDDM|MCDM)\s|Driver Model\s*:?\s*\n\s*Current\s*:\s*(?:WDDM|TCC)"
)
"""The model of the driver, which only Windows has; elsewhere the same column tells of persistence."""

# the boxed table
_TABLE_DRIVER = re.compile(r"(?:Driver|KMD) Version:\s*(\d[\w.]*)")
_NAME = re.compile(r"(\d{1,3})\s+(\S.*?)\s+(?:On|Off|N/A|TCC|WDDM|MCDM|ERR!)$")
_BUS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\b")
_STATE = re.compile(r"\S+\s+(?P<temp>\S+)\s+(?P<state>P\d+|N/A|ERR!|Unknown)\s+(?P<power>\S+)\s*/\s*(?P<limit>\S+)$")
_PROCESS = re.compile(
    r"(?P<gpu>\d{1,3})\s+(?:\S+\s+\S+\s+)?(?P<pid>\d{1,10})\s+[CGM](?:\+[CGM])*\s+(?P<name>.*?)\s*(?P<used>\d+MiB|N/A)?$"
)

# `-q`
_GPU = re.compile(r"\bGPU\s+([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])$")
_DRIVER = re.compile(r"Driver Version\s*:\s*(\d[\w.]*)")
_COLON = re.compile(r"\s*:(?:\s|$)")
# How to read each fact, and where it can stand: the newest drivers' words first.
_PATHS: dict[str, tuple[Any, ...]] = {
    "name": (values.parse_word, ("product name",)),
    "vram_total_bytes": (quantity_in("MiB"), ("fb memory usage", "total")),
    "vram_used_bytes": (quantity_in("MiB"), ("fb memory usage", "used")),
    "vram_free_bytes": (quantity_in("MiB"), ("fb memory usage", "free")),
    "vram_reserved_bytes": (quantity_in("MiB"), ("fb memory usage", "reserved")),
    "busy": (quantity_in("%"), ("utilization", "gpu")),
    "memory_busy": (quantity_in("%"), ("utilization", "memory")),
    "clock_hz": (quantity_in("MHz"), ("clocks", "sm"), ("clocks", "graphics")),
    "clock_max_hz": (quantity_in("MHz"), ("max clocks", "sm"), ("max clocks", "graphics")),
    "memory_clock_hz": (quantity_in("MHz"), ("clocks", "memory")),
    "memory_clock_max_hz": (quantity_in("MHz"), ("max clocks", "memory")),
    "performance_state": (values.parse_word, ("performance state",)),
    "temperature_c": (quantity_in("C"), ("temperature", "gpu current temp"), ("temperature", "gpu")),
    "memory_temperature_c": (quantity_in("C"), ("temperature", "memory current temp")),
    "temperature_slowdown_c": (quantity_in("C"), ("temperature", "gpu slowdown temp")),
    "temperature_shutdown_c": (quantity_in("C"), ("temperature", "gpu shutdown temp")),
    "temperature_margin_c": (quantity_in("C"), ("temperature", "gpu t.limit temp")),
    "power_w": (
        quantity_in("W"),
        ("gpu power readings", "average power draw"),
        ("gpu power readings", "power draw"),
        ("power readings", "power draw"),
        ("gpu power readings", "instantaneous power draw"),
    ),
    "power_limit_w": (
        quantity_in("W"),
        ("gpu power readings", "current power limit"),
        ("power readings", "enforced power limit"),
        ("power readings", "power limit"),
    ),
    "power_limit_default_w": (
        quantity_in("W"),
        ("gpu power readings", "default power limit"),
        ("power readings", "default power limit"),
    ),
    "pcie_generation": (quantity_in(""), ("pcie generation", "current")),
    "pcie_generation_max": (quantity_in(""), ("pcie generation", "max")),
    "pcie_width": (quantity_in("x"), ("link width", "current")),
    "pcie_width_max": (quantity_in("x"), ("link width", "max")),
    "pcie_transmit_bytes_per_s": (quantity_in("KB/s"), ("tx throughput",)),
    "pcie_receive_bytes_per_s": (quantity_in("KB/s"), ("rx throughput",)),
    "ecc": (values.parse_enabled, ("ecc mode", "current")),
    "mig": (values.parse_enabled, ("mig mode", "current")),
}


class Entry(NamedTuple):
    """One line: its name under the names above it, in lower case, and its value; a heading has an empty one."""

    path: tuple[str, ...]
    value: str


def parse_text(text: Text) -> LogFacts:
    """The GPUs of every output of nvidia-smi in a text, whatever stands around it."""
    spans = sorted(span for form in _FORMS for span in spans_of(text, *form))
    found = []
    for span in spans:
        gpus = parse_gpus(block_text(text, span))
        if gpus:
            found.append((span, tuple(facts_at_place(gpu, text.where(span[0])) for gpu in gpus)))
    if not found:
        return LogFacts()
    gpus, where = by_index(*(gpus for _, gpus in found)), text.where(found[0][0][0])
    on_windows = any(_ON_WINDOWS.search(block_text(text, span)) for span, _ in found)
    return LogFacts(
        machine=Machine(
            gpus=reported_fact(gpus, where),
            system=System(name=reported_fact("Windows", where)) if on_windows else System(),
        ),
        lines=sum(end - first for (first, end), _ in found),
        spans=tuple(span for span, _ in found),
    )


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """The GPUs that the text tells of, by index, each with all that any part of it says."""
    # From the coarsest to the finest: what a later one says is laid over what an earlier one said
    return by_index(
        parse_nvidia_smi(text),
        values.gpus_of_rows(values.parse_dmon_rows(text), values.DMON_SOURCE),
        values.gpus_of_rows(values.parse_rows(text), values.GPU_SOURCE),
        parse_nvidia_smi_q(text),
    )


def parse_nvidia_smi(text: str) -> tuple[Gpu, ...]:
    """The GPUs of the table; none where the text is something else."""
    lines = values.plain_lines(text)
    driver = next((reported_fact(m[1], TABLE_SOURCE) for m in map(_TABLE_DRIVER.search, lines) if m), NOT_LOOKED)
    start = next((n for n, line in enumerate(lines) if "| Processes:" in line), None)
    processes: dict[int, list[GpuProcess]] = {}
    for line in lines[start + 1 :] if start is not None else ():
        cells = _cells(line)
        if len(cells) == 1 and (match := _PROCESS.match(cells[0])):
            size = values.parse_quantity(match["used"] or "", "MiB", TABLE_SOURCE)
            process = gpu_process(int(match["pid"]), values.parse_word(match["name"], TABLE_SOURCE), size)
            processes.setdefault(int(match["gpu"]), []).append(process)
    gpus: list[Gpu] = []
    for number, line in enumerate(lines):
        match _cells(line):
            case [first, second, _] if (name := _NAME.match(first)) and _BUS.search(second) and len(gpus) < _MOST_GPUS:
                index = int(name[1])
                facts = {
                    "name": values.parse_word(name[2], TABLE_SOURCE),
                    "bus_id": values.parse_bus_id(second, TABLE_SOURCE),
                    **_table_facts(lines[number + 1 : number + 3]),
                    "driver": driver,
                    "processes": NOT_LOOKED if start is None else reported_fact(processes.get(index, []), TABLE_SOURCE),
                }
                gpus.append(gpu_of(index, "NVIDIA", TABLE_SOURCE, facts))
    return tuple(gpus)


def _table_facts(lines: list[str]) -> dict[str, Fact[Any]]:
    facts: dict[str, Fact[Any]] = {}
    for place, line in enumerate(lines):
        match place, _cells(line):
            case 0, [state, memory, load]:
                texts = {"busy": (load.split(" ")[0], "%")}
                used, _, total = memory.partition("/")
                texts |= {"vram_used_bytes": (used, "MiB"), "vram_total_bytes": (total or used, "MiB")}
                if found := _STATE.match(state):
                    facts["performance_state"] = values.parse_word(found["state"], TABLE_SOURCE)
                    texts |= {"temperature_c": (found["temp"], "C"), "power_w": (found["power"], "W")}
                    texts["power_limit_w"] = (found["limit"], "W")
                facts |= {n: values.parse_quantity(text, unit, TABLE_SOURCE) for n, (text, unit) in texts.items()}
            case 1, ["", "", mig] if mig:
                facts["mig"] = values.parse_enabled(mig.rstrip("*"), TABLE_SOURCE)
    return facts


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]


def parse_nvidia_smi_q(text: str) -> tuple[Gpu, ...]:
    """The GPUs in the order of the text; none where it is something else."""
    lines = values.plain_lines(text)
    driver = next((m[1] for m in map(_DRIVER.search, lines) if m), None)
    version = reported_fact(driver, Q_SOURCE) if driver else NOT_LOOKED
    heads = [(number, match) for number, line in enumerate(lines) if (match := _GPU.search(line))][:_MOST_GPUS]
    ends = [number for number, _ in heads[1:]] + [len(lines)]
    gpus = []
    for index, ((number, match), end) in enumerate(zip(heads, ends, strict=False)):
        block = lines[number + 1 : min(end, number + 1 + _MOST_LINES)]
        # without what a paste has put before every line
        gpus.append(_gpu(index, match[1], [line[match.start() :] for line in block], version))
    return tuple(gpus)


def _gpu(index: int, address: str, lines: list[str], driver: Fact[Any]) -> Gpu:
    entries = [entry for entry in _entries(lines) if "mig device" not in entry.path]
    texts: dict[tuple[str, ...], str] = {}
    for entry in entries:
        texts.setdefault(entry.path[-1:], entry.value)
        texts.setdefault(entry.path[-2:], entry.value)
    facts: dict[str, Fact[Any]] = {
        name: first_known(*(read(texts[path], Q_SOURCE) for path in paths if path in texts))
        for name, (read, *paths) in _PATHS.items()
    }
    # The active reasons, also those of drivers newer than this program
    sections = {"clocks event reasons", "clocks throttle reasons"}
    if reasons := [entry for entry in entries if sections & set(entry.path[:-1])]:
        active = ["_".join(entry.path[-1].split()) for entry in reasons if entry.value.casefold() == "active"]
        facts |= reason_facts(["gpu_idle" if name == "idle" else name for name in active], Q_SOURCE)
    # Newer GPUs print a threshold as its distance below T.Limit zero; with the margin it is a temperature again.
    now, margin = facts["temperature_c"], facts["temperature_margin_c"]
    for which in ("slowdown", "shutdown"):
        below = values.parse_quantity(texts.get(("temperature", f"gpu {which} t.limit temp"), ""), "C", Q_SOURCE)
        if isinstance(now, Known) and isinstance(margin, Known) and isinstance(below, Known):
            facts[f"temperature_{which}_c"] = estimated_fact(now.value + margin.value - below.value, Q_SOURCE)
    facts |= {"driver": driver, "bus_id": values.parse_bus_id(address, Q_SOURCE), "processes": _processes(entries)}
    return gpu_of(index, "NVIDIA", Q_SOURCE, facts)


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


def _processes(entries: list[Entry]) -> Fact[Any]:
    sections = [entry for entry in entries if "processes" in entry.path]
    if not sections:
        return NOT_LOOKED
    if sections[0].value and sections[0].value.casefold() != "none":
        return values.parse_word(sections[0].value, Q_SOURCE)
    found: list[dict[str, str]] = []
    for entry in sections:
        if entry.path[-1] == "process id":
            found.append({})
        if found:
            found[-1][entry.path[-1]] = entry.value
    processes = []
    for texts in (texts for texts in found if values.PROCESS_ID.fullmatch(texts["process id"])):
        size = values.parse_quantity(texts.get("used gpu memory", ""), "MiB", Q_SOURCE)
        name = values.parse_word(texts.get("name", ""), Q_SOURCE)
        processes.append(gpu_process(int(texts["process id"]), name, size))
    return reported_fact(processes, Q_SOURCE)
