"""Rows of nvidia-smi under named columns: `--query-gpu`, `dmon`, and a GPU over time."""

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import Any, Final, get_type_hints

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.merge import bounded_fact
from unslow.facts.run import GpuUnderLoad
from unslow.facts.values import (
    GIB,
    KB,
    KIB,
    MB,
    MHZ,
    MIB,
    NOT_LOOKED,
    Fact,
    Known,
    Unknown,
    failed_fact,
    first_known,
    not_found,
    not_supported,
    reported_fact,
)
from unslow.look.logs.gpu_facts import gpu_of, gpu_process, reason_facts, reason_names

GPU_SOURCE = "nvidia-smi --query-gpu"
APPS_SOURCE = "nvidia-smi --query-compute-apps"
DMON_SOURCE = "nvidia-smi dmon"
Row = dict[str, str]  # The printed values by column name, which is written here without its unit
_Read = Callable[[str, str], Fact[Any]]
UNITS: Final[dict[str, float]] = {
    "": 1, "%": 0.01, "C": 1, "W": 1, "x": 1, "MHz": MHZ, "KiB": KIB, "MiB": MIB, "GiB": GIB, "KB/s": KB, "MB/s": MB,
}  # fmt: skip
_LONGEST_LINE = 4096
_MOST_GPUS = 64
_MOST_ROWS = 50_000  # the latest ones: nearly three hours at five rows a second

# values
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NUMBER = re.compile(r"(-?\d{1,18}(?:\.\d{1,9})?)\s*([A-Za-z%]+(?:/s)?)?")
_BUS_ID = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-9A-Fa-f])\b")
PROCESS_ID = re.compile(r"[0-9]{1,10}")
_NOT_SUPPORTED = (
    "n/a", "-", "not supported", "function not found", "requested functionality has been deprecated",
    "not available in wddm driver model", "deprecated",
)  # fmt: skip
_FAILED = ("insufficient permissions", "unknown error", "gpu is lost", "gpu requires reset", "err!", "unknown")

# why clocks are low
_REASON = re.compile(r"clocks_(?:event|throttle)_reasons\.(\w+)")
_REASON_BITS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
_BITS = re.compile(r"0x([0-9A-Fa-f]{1,16})")
_NO_REASON = ("active", "supported")

# `--query-gpu`, `--query-compute-apps`
_NAME = re.compile(r"[a-z][a-z0-9_.]*")
_UNIT = re.compile(r"\s*\[[^\[\]]*\]$")
_COMMAND = re.compile(r"--query-(?:gpu|compute-apps)=([a-z0-9_.,]+)")
_IDENTITIES = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")

# `dmon`
_HEADER = re.compile(r"#\s*((?:Date,?\s+Time,?\s+|Time,?\s+)?gpu\b.*)", re.IGNORECASE)
_SEPARATOR = re.compile(r"[\s,]+")
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)$")
# The columns by the names that --query-gpu has for them. `fb` is headed "MB" and counts MiB; `pclk` is the SM clock.
_COLUMNS = {
    "gpu": "index",
    "pwr": "power.draw",
    "gtemp": "temperature.gpu",
    "temp": "temperature.gpu",
    "mtemp": "temperature.memory",
    "sm": "utilization.gpu",
    "mem": "utilization.memory",
    "mclk": "clocks.mem",
    "pclk": "clocks.sm",
    "fb": "memory.used",
    "rxpci": "rxpci",
    "txpci": "txpci",
}

# a GPU over time
# A loaded model still grows with its first requests, by 20 to 90 MiB in recordings (workspaces, graphs). What another
# process holds all the time must not count as loaded, though the model on top of it can be small beside it.
_NEAR_FRACTION = 0.02
_NEAR_BYTES = 64 * MIB
_TYPES = get_type_hints(GpuUnderLoad, include_extras=True)


def plain_lines(text: str) -> list[str]:
    """The lines without colours and carriage returns; none is so long that it could keep a parser busy."""
    return [line[:_LONGEST_LINE].rstrip() for line in _ANSI.sub("", text).splitlines()]


def parse_absence(text: str, source: str) -> Unknown | None:
    """Why there is no value, where the text says so in one of nvidia-smi's ways."""
    words = text.strip().strip("[]").strip()
    if words.casefold() in _NOT_SUPPORTED:
        return not_supported(f'{source} says "{words}"')
    if words.casefold() in _FAILED or not words:
        return failed_fact(f'{source} says "{words}"')
    return None


def parse_quantity(text: str, unit: str, source: str) -> Fact[Any]:
    """The number in SI; `unit` is what it is in where the text has none."""
    if missing := parse_absence(text, source):
        return missing
    match = _NUMBER.search(text)
    if not match:
        return failed_fact(f'{source} says "{text.strip()[:40]}", which is not a number')
    scale = UNITS.get(match[2] or unit, UNITS[unit])
    value = round(float(match[1]) * scale, 6)
    return reported_fact(int(value) if value.is_integer() else value, source)


def quantity_in(unit: str) -> _Read:
    """A reader of numbers that are in this unit where they have none."""
    return lambda text, source: parse_quantity(text, unit, source)


def parse_word(text: str, source: str) -> Fact[Any]:
    """The text itself."""
    return parse_absence(text, source) or reported_fact(text.strip(), source)


def parse_enabled(text: str, source: str) -> Fact[Any]:
    """Whether the text says that something is on."""
    if missing := parse_absence(text, source):
        return missing
    state = {"enabled": True, "on": True, "disabled": False, "off": False}.get(text.strip().casefold())
    return failed_fact(f'{source} says "{text.strip()[:40]}"') if state is None else reported_fact(state, source)


def parse_bus_id(text: str, source: str) -> Fact[Any]:
    """A PCI address in the spelling of /sys/bus/pci/devices; NVIDIA writes the domain with eight digits."""
    match = _BUS_ID.search(text)
    if not match:
        why = f'{source} says "{text.strip()[:40]}", which is not a PCI address'
        return parse_absence(text, source) or failed_fact(why)
    domain, bus, device, function = match.groups()
    return reported_fact(f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower(), source)


# How to read each fact, and the columns that hold it, the best one first.
_FACTS: dict[str, tuple[_Read, tuple[str, ...]]] = {
    "name": (parse_word, ("name", "gpu_name")),
    "driver": (parse_word, ("driver_version",)),
    "bus_id": (parse_bus_id, ("pci.bus_id", "gpu_bus_id")),
    "compute_capability": (parse_word, ("compute_cap",)),
    "vram_total_bytes": (quantity_in("MiB"), ("memory.total",)),
    "vram_used_bytes": (quantity_in("MiB"), ("memory.used",)),
    "vram_free_bytes": (quantity_in("MiB"), ("memory.free",)),
    "vram_reserved_bytes": (quantity_in("MiB"), ("memory.reserved",)),
    "busy": (quantity_in("%"), ("utilization.gpu",)),
    "memory_busy": (quantity_in("%"), ("utilization.memory",)),
    "clock_hz": (quantity_in("MHz"), ("clocks.sm", "clocks.current.sm", "clocks.gr", "clocks.current.graphics")),
    "clock_max_hz": (quantity_in("MHz"), ("clocks.max.sm", "clocks.max.gr", "clocks.max.graphics")),
    "memory_clock_hz": (quantity_in("MHz"), ("clocks.mem", "clocks.current.memory")),
    "memory_clock_max_hz": (quantity_in("MHz"), ("clocks.max.mem", "clocks.max.memory")),
    "performance_state": (parse_word, ("pstate",)),
    "temperature_c": (quantity_in("C"), ("temperature.gpu",)),
    "memory_temperature_c": (quantity_in("C"), ("temperature.memory",)),
    "temperature_margin_c": (quantity_in("C"), ("temperature.gpu.tlimit",)),
    "power_w": (quantity_in("W"), ("power.draw", "power.draw.average", "power.draw.instant")),
    "power_limit_w": (quantity_in("W"), ("enforced.power.limit", "power.limit")),
    "power_limit_default_w": (quantity_in("W"), ("power.default_limit",)),
    "pcie_generation": (quantity_in(""), ("pcie.link.gen.current", "pcie.link.gen.gpucurrent")),
    "pcie_generation_max": (quantity_in(""), ("pcie.link.gen.max",)),
    "pcie_width": (quantity_in("x"), ("pcie.link.width.current",)),
    "pcie_width_max": (quantity_in("x"), ("pcie.link.width.max",)),
    "pcie_transmit_bytes_per_s": (quantity_in("MB/s"), ("txpci",)),
    "pcie_receive_bytes_per_s": (quantity_in("MB/s"), ("rxpci",)),
    "ecc": (parse_enabled, ("ecc.mode.current",)),
    "mig": (parse_enabled, ("mig.mode.current",)),
}
COLUMNS = frozenset({*_REASON_BITS, *(column for _, columns in _FACTS.values() for column in columns)})
_KNOWN = COLUMNS | {*_IDENTITIES, "index", "timestamp", "pid", "process_name", "used_gpu_memory", "used_memory"}


def parse_compute_apps(text: str) -> Fact[list[GpuProcess]]:
    """The processes of a table that has at least their ids; a header without rows is an empty list."""
    rows = [row for row in parse_rows(text) if PROCESS_ID.fullmatch(row.get("pid", ""))]
    if not rows and not any("pid" in (_header(line) or ("", []))[1] for line in plain_lines(text)):
        return not_found("no table of GPU processes")
    processes = []
    for row in rows:
        size = parse_quantity(row.get("used_gpu_memory", row.get("used_memory", "")), "MiB", APPS_SOURCE)
        name = parse_word(row.get("process_name", ""), APPS_SOURCE)
        processes.append(gpu_process(int(row["pid"]), name, size))
    return reported_fact(processes, APPS_SOURCE)


def parse_rows(text: str) -> list[Row]:
    """The rows below the header, or below the command that names the columns."""
    names: list[str] = []
    prefix, ends = "", False
    rows: deque[Row] = deque(maxlen=_MOST_ROWS)
    for line in plain_lines(text):
        if command := _COMMAND.search(line):
            names, prefix, ends = command[1].split(","), "", True
        elif header := _header(line):
            (prefix, names), ends = header, len(header[1]) == 1
        elif row := _row(line.removeprefix(prefix), names):
            rows.append(row)
        elif ends:  # what follows is other text, that would fit a table of so few columns by chance
            names = []
    return list(rows)


def _header(line: str) -> tuple[str, list[str]] | None:
    """What stands before the header in its line, and the column names; None where the line is not a header."""
    fields = [_UNIT.sub("", field.strip()) for field in line.split(",")]
    fields[0] = fields[0].rpartition(" ")[2]
    known = _KNOWN.intersection(fields)
    if not all(map(_NAME.fullmatch, fields)) or not (len(known) > 1 or any("." in name for name in known)):
        return None
    return line[: line.index(fields[0])], fields


def _row(line: str, names: list[str]) -> Row | None:
    fields = [field.strip() for field in line.split(",")]
    extra = len(fields) - len(names)
    place = next((names.index(name) for name in ("process_name", "name", "gpu_name") if name in names), None)
    if extra > 0 and place is not None:  # a comma inside a name, which nvidia-smi does not quote
        fields[place : place + extra + 1] = [", ".join(fields[place : place + extra + 1])]
    return dict(zip(names, fields, strict=True)) if len(fields) == len(names) and any(fields) else None


def parse_dmon_rows(text: str) -> list[Row]:
    """The rows, in the columns of `--query-gpu`, so that a series of them is summarised like any other."""
    names: list[str] = []
    rows: deque[Row] = deque(maxlen=_MOST_ROWS)
    for line in plain_lines(text):
        if header := _HEADER.search(line):
            names = _SEPARATOR.split(header[1].strip().lower())
        elif names and "#" not in line:
            cells = [cell for cell in _SEPARATOR.split(line) if cell][-len(names) :]
            fields = dict(zip(names, cells, strict=False))
            if len(cells) < len(names) or not fields.get("gpu", "").isdecimal():
                continue
            row = {_COLUMNS[name]: text for name, text in fields.items() if name in _COLUMNS}
            if "time" in fields:
                date = _DATE.match(fields.get("date", ""))
                row["timestamp"] = f"{'/'.join(date.groups()) if date else ''} {fields['time']}"
            rows.append(row)
    return list(rows)


def gpus_of_rows(rows: Sequence[Row], source: str) -> tuple[Gpu, ...]:
    """Each GPU of the table as its latest row says."""
    gpus = []
    for index, of_gpu in rows_by_gpu(rows).items():
        facts = {name: row_fact(of_gpu[-1], name, source) for name in _FACTS}
        told = {name: fact for name, fact in facts.items() if fact != NOT_LOOKED}
        gpus.append(gpu_of(index, "NVIDIA", source, told | row_reasons(of_gpu[-1], source)))
    return tuple(gpus)


def rows_by_gpu(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """The rows of each GPU by its index; a table of one moment that names none has one row for each."""
    places: dict[str, int] = {}
    result: dict[int, list[Row]] = {}
    for number, row in enumerate(row for row in rows if not COLUMNS.isdisjoint(row)):
        index = row.get("index", "")
        if not (index.isdecimal() and int(index) < _MOST_GPUS):
            names = [row[column] for column in _IDENTITIES if column in row]
            series = "timestamp" in row or len(rows) > _MOST_GPUS
            name = names[0] if names else "" if series else str(number)
            index = str(places.setdefault(name, len(places)))
        result.setdefault(int(index), []).append(row)
    return result


def row_fact(row: Mapping[str, str], name: str, source: str) -> Fact[Any]:
    """One fact of a row; "not looked at" where it has no column for it."""
    read, columns = _FACTS[name]
    return first_known(*(read(row[column], source) for column in columns if column in row))


def row_reasons(row: Mapping[str, str], source: str) -> dict[str, Fact[Any]]:
    """The event reasons of a row: from the column with all bits, else from the columns of single reasons."""
    text = next((row[column] for column in _REASON_BITS if column in row), None)
    if text is not None:
        match = _BITS.fullmatch(text.strip())
        if not match:
            why = f'{source} says "{text.strip()[:40]}", which is not a bit mask'
            return dict.fromkeys(
                ("event_reasons", "event_reason_bits"), parse_absence(text, source) or failed_fact(why)
            )
        return reason_facts(reason_names(int(match[1], 16)), source)
    single = {m[1]: row[column] for column in row if (m := _REASON.fullmatch(column)) and m[1] not in _NO_REASON}
    active = [name for name, state in single.items() if state.casefold() == "active"]
    return reason_facts(active, source) if single else {}


def summarise_series(rows: Sequence[Row], source: str = GPU_SOURCE) -> tuple[GpuUnderLoad, ...]:
    """Each GPU over its loaded rows."""
    return tuple(_summary(index, of_gpu, source) for index, of_gpu in rows_by_gpu(rows).items())


def _summary(index: int, rows: list[Row], source: str) -> GpuUnderLoad:
    def combine_known(facts: list[Fact[Any]], combine: Callable[[list[Any]], Any]) -> Fact[Any]:
        """The known values as one; where none is known, why the last one is not."""
        known = [fact.value for fact in facts if isinstance(fact, Known)]
        return reported_fact(combine(known), source) if known else facts[-1] if facts else NOT_LOOKED

    def over(name: str, combine: Callable[[list[Any]], Any]) -> Fact[Any]:
        return combine_known([row_fact(row, name, source) for row in rows], combine)

    # The rows while memory in use was near its maximum; without that column, all of them
    used = [row_fact(row, "vram_used_bytes", source).value_or(None) for row in rows]
    if most := max((size for size in used if size is not None), default=None):
        enough = most - max(_NEAR_FRACTION * most, _NEAR_BYTES)
        rows = [row for row, size in zip(rows, used, strict=True) if size is not None and size >= enough]
    # Every reason that was ever set while the GPU worked; the idle rows between say nothing about the load
    working = [row for row in rows if row_fact(row, "busy", source).value_or(1) > 0]
    reasons = [row_reasons(row, source).get("event_reasons", NOT_LOOKED) for row in working]
    facts = {
        "busy": over("busy", fmean),
        "memory_busy": over("memory_busy", fmean),
        "clock_hz": over("clock_hz", fmean),
        "temperature_max_c": over("temperature_c", max),
        "power_max_w": over("power_w", max),
        "vram_used_max_bytes": over("vram_used_bytes", max),
        "event_reasons": combine_known(reasons, lambda lists: list(dict.fromkeys(chain.from_iterable(lists)))),
        "pcie_generation_max_seen": over("pcie_generation", max),
        "pcie_width_max_seen": over("pcie_width", max),
    }
    return GpuUnderLoad(index=index, samples=len(rows), **{n: bounded_fact(f, _TYPES[n]) for n, f in facts.items()})
