"""Anything that rocm-smi prints, in any mixture: its table, its lines, its JSON and CSV."""

import csv
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec

from unslow.facts.machine import Gpu
from unslow.facts.values import MHZ, Fact, first_known, not_found, not_supported, reported_fact
from unslow.look.kernel.gpus import GENERATIONS
from unslow.look.logs.gpu_facts import MOST_GPUS, by_index, gpu_of, gpu_process, with_free
from unslow.look.logs.text_blocks import block_form, listed_fact, numbered_lines, parse_amount, parse_word, seen_gpus

SOURCE = "rocm-smi"
_LARGEST = 1024**2

# the table
_TABLE_HEADER = re.compile(r"(?<!\S)(?:GPU|Device)\s.{0,200}\bSCLK\s+MCLK\b.{0,200}\bVRAM%\s+GPU%")
_PATTERNS = (
    # since ROCm 5.7: device, KFD node, two ids, temperature, power, three partitions
    re.compile(
        r"(?<!\S)(?P<gpu>\d{1,3})\s+(?:\[\S+\s*:\s*\S+\]\s+)?\d{1,3}\s+0x[0-9a-f]+,\s*\S+\s+(?P<temp>\S+)\s+(?P<power>\S+)"
        r"\s+\S+,\s*\S+,\s*\S+\s+(?P<sclk>\S+)\s+(?P<mclk>\S+)\s+(?P<fan>\S+)\s+(?P<perf>\S+)\s+(?P<cap>\S+)\s+(?P<vram>\S+)"
        r"\s+(?P<use>\S+)",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?<!\S)(?P<gpu>\d{1,3})\s+(?P<temp>\S+)\s+(?P<power>\S+)\s+(?P<sclk>\S+)\s+(?P<mclk>\S+)\s+(?P<fan>\S+)\s+"
        r"(?P<perf>\S+)\s+(?P<cap>\S+)\s+(?P<vram>\S+)\s+(?P<use>\S+)(?!\S)"
    ),
)
_TABLE_AMOUNTS = {
    "temperature_c": ("temp", "C"),
    "power_w": ("power", "W"),
    "power_limit_w": ("cap", "W"),
    "clock_hz": ("sclk", "MHz"),
    "memory_clock_hz": ("mclk", "MHz"),
    "busy": ("use", "%"),
}

# CSV and JSON
_CARD = re.compile(r"card(\d{1,3})")
_HEADER = re.compile(r"(?<!\S)device,(?=[^\n]*\()")

# lines `GPU[0] : ...`
_LINE = re.compile(r"\bGPU\[(\d{1,3})\]\s{0,16}:\s*(\S.*)")
_KEY = re.compile(r"([A-Za-z][^:]{1,60}?)\s*:\s*(.+)")
_SUPPORTED = re.compile(r"Supported (sclk|mclk) frequencies", re.IGNORECASE)
_STEP = re.compile(r"(?:\d{1,2}|S):\s*(\d{1,6})\s*mhz", re.IGNORECASE)
_PROCESS = re.compile(r"(?<!\S)(\d{1,10})\s+(\S.{0,60}?)\s+(\d{1,3})\s+(\d{1,18})\s+\d{1,18}\b")
_MOST = {"sclk": "clock_max_hz", "mclk": "memory_clock_max_hz"}

# values
_CLOCK = re.compile(r"(\d{1,6})\s*mhz", re.IGNORECASE)
_LINK = re.compile(r"(\d{1,3}(?:\.\d)?)\s*GT/s,?\s*x(\d{1,2})\b")
_NUMBER_NAME = re.compile(r"0x[0-9a-fA-F]+")
_BUS = re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
# The key, or its beginning, in small letters: the fact and the unit; the first that is known counts.
_AMOUNTS = {
    "gpu use (%)": ("busy", "%"),
    "gpu memory read/write activity (%)": ("memory_busy", "%"),
    "gpu memory use (%)": ("memory_busy", "%"),
    "vram total memory (b)": ("vram_total_bytes", "B"),
    "vram total used memory (b)": ("vram_used_bytes", "B"),
    "gtt total memory (b)": ("gtt_total_bytes", "B"),
    "gtt total used memory (b)": ("gtt_used_bytes", "B"),
    "temperature (sensor edge) (c)": ("temperature_c", "C"),
    "temperature (sensor junction) (c)": ("temperature_c", "C"),
    "temperature (sensor memory) (c)": ("memory_temperature_c", "C"),
    "average graphics package power (w)": ("power_w", "W"),
    "current socket graphics package power (w)": ("power_w", "W"),
    "max graphics package power (w)": ("power_limit_w", "W"),
}
_WORDS = {
    "performance level": "performance_state",
    "gfx version": "architecture",
    "card series": "name",
    "device name": "name",
    "card model": "name",
    "driver version": "driver",
}
_CLOCKS = {"sclk clock": "clock_hz", "mclk clock": "memory_clock_hz"}


class Entry(NamedTuple):
    """A key with its value, and where it stands."""

    source: str
    key: str
    value: str


def parse_gpus(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs that the text tells of, by index, each with all that any part of it says."""
    return by_index(*(parse(text, source, first_line) for parse in (parse_table, parse_csv, parse_json, parse_lines)))


parse_text = partial(
    seen_gpus,
    parse=parse_gpus,
    forms=(
        block_form(
            r"ROCm System Management Interface|\bSCLK\s+MCLK\b|\bGPU\[\d{1,3}\]\s*:",
            r"={4}|-{10}|GPU\[\d|SCLK|DID,|KFD|PROCESS NAME|WARNING|ERROR|(?<![^\s>|#])\d{1,10}\s+\S",
        ),
        block_form(r"\{\s*$|\{\s*\"card\d", r"[{}]|\"[^\"]+\"\s*:"),
        block_form(r"(?<!\S)device,[^\n]*\(", r"card\d{1,3},"),
    ),
)
"""The GPUs of every output of rocm-smi in a text."""


def parse_table(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs of the table; none where the text is something else."""
    gpus: dict[int, Gpu] = {}
    below = False
    for line in numbered_lines(text, source, first_line):
        if _TABLE_HEADER.search(line.text):
            below = True
        elif "End of ROCm SMI Log" in line.text:
            below = False
        elif below and (row := next((m for p in _PATTERNS if (m := p.search(line.text))), None)):
            facts: dict[str, Fact[Any]] = {
                name: parse_amount(row[column], unit, line.source) for name, (column, unit) in _TABLE_AMOUNTS.items()
            }
            facts["performance_state"] = parse_word(row["perf"], line.source)
            # The table has a percentage and no size: it gives no bytes.
            why = f"{line.source} says {row['vram'][:10]} of a total that it does not name"
            facts["vram_used_bytes"] = not_supported(why, "rocm-smi --showmeminfo all")
            gpus[int(row["gpu"])] = gpu_of(int(row["gpu"]), "AMD", line.source, facts)
    return tuple(gpus[index] for index in sorted(gpus)[:MOST_GPUS])


def parse_csv(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs of the table whose first column is `device`; none where there is none."""
    names: list[str] = []
    cards: dict[str, list[Entry]] = {}
    for line in numbered_lines(text, source, first_line):
        if header := _HEADER.search(line.text):
            names = _fields(line.text[header.start() :])
        elif names and _CARD.match(line.text.strip()):
            row = dict(zip(names, _fields(line.text.strip()), strict=False))
            card = cards.setdefault(row["device"].strip(), [])
            card.extend(Entry(line.source, key, value) for key, value in row.items() if key != "device")
    return _gpus(cards)


def _fields(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def parse_json(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs of the JSON object that begins with a card, wherever it stands; none where there is none."""
    start = re.search(r"\{\s{0,8}\"card\d{1,3}\"", text)
    if start is None:
        return ()
    raw: dict[str, Any] = {}
    with suppress(ValueError, RecursionError):
        raw, _ = json.JSONDecoder().raw_decode(text[start.start() : start.start() + _LARGEST])
    place = f"{source}:{text.count(chr(10), 0, start.start()) + first_line}"
    cards = {
        name: [Entry(place, str(key), str(value)) for key, value in (of.items() if isinstance(of, dict) else ())]
        for name, of in raw.items()
    }
    common = cards.get("system", [])
    return _gpus({name: [*entries, *common] for name, entries in cards.items()})


def _gpus(
    cards: Mapping[str, list[Entry]], steps: Mapping[str, Mapping[str, tuple[int, str]]] | None = None
) -> tuple[Gpu, ...]:
    """The GPUs of entries by the names of their cards; `steps` are the highest clocks in MHz, and where they stand."""
    found = {int(match[1]): name for name in cards if (match := _CARD.fullmatch(name)) and cards[name]}
    gpus = []
    for index in sorted(found)[:MOST_GPUS]:
        facts: dict[str, Fact[Any]] = {}
        for name, fact in (pair for entry in cards[found[index]] for pair in _facts(entry).items()):
            facts[name] = first_known(facts[name], fact) if name in facts else fact
        clocks = steps.get(found[index], {}) if steps else {}
        facts |= {name: reported_fact(mhz * MHZ, where) for name, (mhz, where) in clocks.items()}
        if facts:
            gpus.append(gpu_of(index, "AMD", cards[found[index]][0].source, with_free(facts)))
    return tuple(gpus)


def parse_lines(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs that such lines speak of; none where the text is something else."""
    lines = list(numbered_lines(text, source, first_line))
    entries: dict[str, list[Entry]] = {}
    steps: dict[str, dict[str, tuple[int, str]]] = {}
    clock = ""
    for line in lines:
        if not (found := _LINE.search(line.text)):
            continue
        card, said = f"card{int(found[1])}", found[2]
        if heading := _SUPPORTED.search(said):
            clock = _MOST[heading[1].lower()]
        elif step := _STEP.match(said):
            highest = steps.setdefault(card, {})
            if clock and int(step[1]) > highest.get(clock, (0, ""))[0]:
                highest[clock] = (int(step[1]), line.source)
        elif entry := _KEY.match(said):
            clock = ""
            entries.setdefault(card, []).append(Entry(line.source, entry[1], entry[2]))
    gpus = _gpus(entries, steps)
    # The table of processes does not say on which GPU each of them is
    start = next((n for n, line in enumerate(lines) if "PROCESS NAME" in line.text and "VRAM USED" in line.text), None)
    if start is not None and len(gpus) == 1:
        running = []
        for line in lines[start + 1 :]:
            if not (row := _PROCESS.search(line.text)):
                break
            name, size = reported_fact(row[2], line.source), reported_fact(int(row[4]), line.source)
            running.append(gpu_process(int(row[1]), name, size))
        gpus = (msgspec.structs.replace(gpus[0], processes=reported_fact(running, lines[start].source)),)
    return gpus


def _facts(entry: Entry) -> dict[str, Fact[Any]]:
    key, value = entry.key.strip().casefold(), entry.value.strip()
    if key in _WORDS and _NUMBER_NAME.fullmatch(value):  # of a device, where a name should be
        return {_WORDS[key]: not_found(f"{entry.source} has only the number {value}")}
    if key.startswith(tuple(_CLOCKS)):
        clock = _CLOCK.search(value)
        return {_CLOCKS[key[:10]]: reported_fact(int(clock[1]) * MHZ, entry.source)} if clock else {}
    if key.startswith("pcie clock") and (link := _LINK.search(value)):  # such as "8.0GT/s x16"
        width, generation = reported_fact(int(link[2]), entry.source), GENERATIONS.get(float(link[1]))
        known = {"pcie_generation": reported_fact(generation, entry.source)} if generation else {}
        return {"pcie_width": width, **known}
    if key == "pci bus" and (bus := _BUS.search(value)):
        return {"bus_id": reported_fact(bus[0].lower(), entry.source)}
    return listed_fact(key, value, entry.source, _AMOUNTS, _WORDS)
