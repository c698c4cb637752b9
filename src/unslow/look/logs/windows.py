"""What Windows says of itself: objects by PowerShell, counters of GPU memory, the Task Manager."""

import csv
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from unslow.facts.machine import Cpu, Disk, Gpu, GpuProcess, Machine, Memory
from unslow.facts.machine import System as SystemFacts
from unslow.facts.merge import bound_facts
from unslow.facts.values import KIB, MIB, NOT_LOOKED, Fact, Known, estimated_fact, not_supported, reported_fact
from unslow.look.logs.dialect import LogFacts, Text, TextDialect
from unslow.look.logs.gpu_facts import MOST_GPUS, gpu_of, with_free
from unslow.look.logs.text_blocks import NumberedLine, block_form, numbered_lines, parse_amount, seen_gpus
from unslow.look.system import FinishedCommand, System, try_look

OBJECTS_SOURCE = "Get-CimInstance"
COUNTERS_SOURCE = "performance counters"
DIRECTX = "HKLM:\\SOFTWARE\\Microsoft\\DirectX"

# objects by PowerShell
# Types of memory in the SMBIOS specification, section 7.18.2
_TYPES = {24: "DDR3", 26: "DDR4", 29: "LPDDR3", 30: "LPDDR4", 34: "DDR5", 35: "LPDDR5"}
_LONGEST_NUMBER = 18
_DISKS = "Get-PhysicalDisk"
_MOST_DISKS = 64
_ADAPTER_VENDORS = {0x10DE: "NVIDIA", 0x1002: "AMD", 0x8086: "Intel", 0x5143: "Qualcomm"}
_LONGEST_NAME = 200

# counters
_COUNTER_FORMS = (
    block_form(
        r"PDH-CSV|(?i:GPU (?:Adapter|Process) Memory\()|(?<!\S)Name\s*:\s*(?:pid_\d+_)?luid_",
        r"luid_|Usage\s*:|\",\"|^\W*\d+(?:[.,]\d+)?\W*$",
    ),
)
_INSTANCE = r"((?:pid_\d{1,10}_)?luid_0x[0-9a-f]{1,16}_0x[0-9a-f]{1,16})\w{0,60}"
_PATH = re.compile(rf"gpu (adapter|process) memory\({_INSTANCE}\)\\(dedicated|shared) usage", re.IGNORECASE)
_ADAPTER = re.compile(r"luid_0x[0-9a-f]+_0x[0-9a-f]+")
_PID = re.compile(r"pid_(\d{1,10})_")
_NUMBER = re.compile(r"(?<![\w.])(\d{1,18})(?:[.,]\d{1,9})?(?![\w.])")
_COUNTER_NAME = re.compile(rf"(?<!\S)Name\s*:\s*{_INSTANCE}", re.IGNORECASE)
_USAGE = re.compile(r"(?<!\S)(Dedicated|Shared)Usage\s*:\s*(\d{1,18})\b")
_COUNTER_KINDS = {"dedicated": "vram_used_bytes", "shared": "shared_used_bytes"}
_MOST_PROCESSES = 1024

# the Task Manager
_FORMS = (
    block_form(
        r"(?i:(?:Dedicated|Shared)\"? GPU memory|of (?:the )?shared |dedicated[^;]{0,30}\d ?GB\W{1,3}shared)"
        r"|(?<!\S)(?:GPU|NPU) ?\d{1,2}\W*$",
        r"NVIDIA|AMD|Intel|Radeon|GeForce|GPU|GB|%|:\s",
    ),
)
_SIZES = r"[\s:]{0,20}(\d{1,5}(?:[.,]\d{1,2})?)\s*(?:GB|G)?\s*/\s*(\d{1,5}(?:[.,]\d{1,2})?)\s*(GB|G|MB)\b"
_DEDICATED = re.compile(rf"Dedicated GPU memory(?: usage)?{_SIZES}", re.IGNORECASE)
_SHARED = re.compile(rf"Shared GPU memory(?: usage)?{_SIZES}", re.IGNORECASE)
_IN_WORDS = re.compile(
    r"\b(?:us(?:es?|ed|ing)|occup\w{1,6}|fill\w{0,4})\b\D{0,30}(\d{1,4}(?:[.,]\d{1,2})?)\+?\s*(GB|G|MB) of (?:the )?"
    r"shared (?:GPU |video )?(?:memory|VRAM)",
    re.IGNORECASE,
)
_TYPED = re.compile(
    r"(?:\bshared\W{0,2} GPU memory\W{0,3}|\bdedicated[^;\n]{0,30}GB\W{1,3}shared(?: GPU memory)? ?)"
    r"(?:(?:rais|ris|grow|go)\w{1,4} )?(?:from \d[\d.]{0,5}(?: ?GB)? to )?(\d{1,4}(?:[.,]\d{1,2})?) ?(GB)(?!\s*/)",
    re.IGNORECASE,
)
"""The figure of the page in a line of prose."""
_NONE_OF_ITS_OWN = re.compile(r"Dedicated GPU memory\s*$", re.IGNORECASE)
_BEGIN = re.compile(r"(?<!\S)(?:GPU|NPU) ?(\d{1,2})?\s*:?$")
_NAME = re.compile(r"(?<!\S)((NVIDIA|AMD|Intel|Radeon|GeForce)\b[^:|,]{2,80})$")
_DRIVER = re.compile(r"Driver version:\s*(\d[\d.]{2,30})", re.IGNORECASE)
_USE = re.compile(r"Utili[sz]ation[\s:]{1,20}(\d{1,3})\s*%", re.IGNORECASE)
_PLACE = re.compile(r"PCI bus (\d{1,3}), device (\d{1,2}), function (\d)", re.IGNORECASE)


class CounterReading(NamedTuple):
    """One counter: whose it is, what it counts, and its bytes."""

    source: str
    instance: str
    kind: str
    size: int


def read_windows_objects(system: System, objects: str) -> FinishedCommand | None:
    """What Windows prints of them; None on another system, LookError where it does not answer."""
    if try_look(None, system.ask, "sys.platform", lambda: sys.platform) != "win32":
        return None
    # PowerShell starts in seconds where a virus scanner reads along
    return system.run(powershell_command(objects), timeout_s=20.0)


def powershell_command(objects: str) -> tuple[str, ...]:
    """The command that prints these objects as JSON; it only reads."""
    return ("powershell", "-NoProfile", "-NonInteractive", "-Command", f"{objects}|ConvertTo-Json -Depth 3 -Compress")


def parse_objects(text: str) -> Machine:
    """The machine; facts stay unknown where the text is not such JSON."""
    answer = _decode_object(text)
    kinds = {name: list(object_entries(answer.get(name))) for name in ("os", "cpu", "ram", "page", "disk", "part")}
    os = kinds["os"][:1]
    sockets, modules = kinds["cpu"], kinds["ram"]
    names = {_TYPES.get(whole_number(module.get("SMBIOSMemoryType")) or 0, "") for module in modules}
    speeds = [speed for module in modules if (speed := whole_number(module.get("ConfiguredClockSpeed")))]
    name = names.pop() if len(names) == 1 else ""
    kind: Fact[str] = NOT_LOOKED
    if name and speeds:  # all modules run at the speed of the slowest
        kind = estimated_fact(f"{name}-{min(speeds)}", f"{OBJECTS_SOURCE} Win32_PhysicalMemory")
    machine = Machine(
        system=SystemFacts(name=_word(os, "Caption"), version=_word(os, "Version")),
        cpu=Cpu(
            model=_word(sockets, "Name"),
            sockets=reported_fact(len(sockets), OBJECTS_SOURCE) if sockets else NOT_LOOKED,
            physical_cores=_sum(sockets, "NumberOfCores", 1),
            logical_cpus=_sum(sockets, "NumberOfLogicalProcessors", 1),
        ),
        memory=Memory(
            total_bytes=_sum(os, "TotalVisibleMemorySize", KIB),
            available_bytes=_sum(os, "FreePhysicalMemory", KIB),
            swap_total_bytes=_sum(kinds["page"], "AllocatedBaseSize", MIB),
            swap_used_bytes=_sum(kinds["page"], "CurrentUsage", MIB),
            kind=kind,
        ),
        disks=_disks(kinds["disk"], kinds["part"]),
    )
    return bound_facts(machine)


def _decode_object(text: str) -> dict[str, Any]:
    try:
        answer = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return {}
    return answer if isinstance(answer, dict) else {}


def object_entries(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of a list; ConvertTo-Json writes a list of one as the thing itself."""
    return (entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, dict))


def whole_number(value: Any) -> int | None:
    """A whole number that is not negative; 64-bit ones come as text."""
    digits = str(value)
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= _LONGEST_NUMBER else None


def _word(objects: list[dict[str, Any]], name: str) -> Fact[Any]:
    value = objects[0].get(name) if objects else None
    word = value.strip()[:200] if isinstance(value, str) else ""
    return reported_fact(word, OBJECTS_SOURCE) if word else NOT_LOOKED


def _sum(objects: list[dict[str, Any]], name: str, unit: int) -> Fact[Any]:
    numbers = [number for entry in objects if (number := whole_number(entry.get(name))) is not None]
    return reported_fact(sum(numbers) * unit, OBJECTS_SOURCE) if numbers else NOT_LOOKED


def _disks(disks: list[dict[str, Any]], parts: list[dict[str, Any]]) -> tuple[Disk, ...]:
    kinds: dict[str, Fact[Any]] = {}
    for disk in disks[:_MOST_DISKS]:
        # By its medium, and by its bus where that limits it. Enumerations come as words or as their numbers, those of
        # MSFT_PhysicalDisk: MediaType 3 is a hard disk, 4 an SSD; BusType 11 is SATA, 17 NVMe
        medium, bus = (str(disk.get(name, "")).lower() for name in ("MediaType", "BusType"))
        if medium in ("hdd", "3"):
            kind = "hdd"
        elif bus in ("nvme", "17"):
            kind = "nvme"
        else:
            kind = "ssd" if bus in ("sata", "11") and medium in ("ssd", "4") else "other"
        kinds[str(disk.get("DeviceId"))] = reported_fact(kind, _DISKS)
    drives = [(str(part.get("Drive", "")).upper(), str(part.get("DiskNumber"))) for part in parts[:_MOST_DISKS]]
    return tuple(
        Disk(path=f"{drive}:\\", kind=kinds[number], device=reported_fact(f"disk {number}", _DISKS))
        for drive, number in drives
        if number in kinds and len(drive) == 1 and drive.isascii() and drive.isalpha()
    )


def parse_adapters(text: str) -> tuple[Gpu, ...]:
    """The adapters that hold memory, with name and sizes where DirectX lists them; none where it is not such JSON."""
    answer = _decode_object(text)
    readings = [*_readings(answer.get("adapters")), *_readings(answer.get("processes"))]
    listed = {}
    for entry in object_entries(answer.get("directx")):
        # The counters spell an adapter's number as its high and its low word
        number = whole_number(entry.get("AdapterLuid")) or 0
        listed[f"luid_0x{number >> 32:08x}_0x{number & 0xFFFFFFFF:08x}"] = entry
    # The names of processes by their numbers: the counters know only these
    named = ((whole_number(entry.get("Id")), entry.get("ProcessName")) for entry in object_entries(answer.get("names")))
    programs = {pid: name[:_LONGEST_NAME] for pid, name in named if pid and isinstance(name, str) and name}
    held = enumerate(facts_by_adapter(readings).items())
    return tuple(_gpu_with_names(index, facts, listed.get(luid, {}), programs) for index, (luid, facts) in held)


def _readings(value: Any) -> Iterator[CounterReading]:
    for entry in object_entries(value):
        name = entry.get("Name")
        instance = name.lower().partition("_phys_")[0] if isinstance(name, str) else ""
        for word, kind in _COUNTER_KINDS.items():
            size = whole_number(entry.get(f"{word.title()}Usage"))
            if _ADAPTER.search(instance) and size is not None:
                yield CounterReading(COUNTERS_SOURCE, instance, kind, size)


def _gpu_with_names(index: int, facts: dict[str, Fact[Any]], entry: dict[str, Any], programs: dict[int, str]) -> Gpu:
    if isinstance(running := facts.get("processes"), Known):
        names = {pid: reported_fact(name, "Get-Process") for pid, name in programs.items()}
        named = [msgspec.structs.replace(each, name=names.get(each.pid, each.name)) for each in running.value]
        facts["processes"] = reported_fact(named, running.source)
    name = entry.get("Description")
    if isinstance(name, str) and name:
        facts["name"] = reported_fact(name[:_LONGEST_NAME], DIRECTX)
    for key, fact in (("DedicatedVideoMemory", "vram_total_bytes"), ("SharedSystemMemory", "shared_total_bytes")):
        if (size := whole_number(entry.get(key))) is not None:
            facts[fact] = reported_fact(size, DIRECTX)
    return gpu_of(index, _ADAPTER_VENDORS.get(whole_number(entry.get("VendorId")) or 0, ""), DIRECTX, with_free(facts))


def facts_by_adapter(readings: Sequence[CounterReading]) -> dict[str, dict[str, Fact[Any]]]:
    """What each adapter holds, and its processes; one that holds nothing is of software, such as the basic renderer."""
    adapters: dict[str, dict[str, Fact[Any]]] = {}
    for reading in readings:
        if not _PID.match(reading.instance):
            adapters.setdefault(reading.instance, {})[reading.kind] = reported_fact(reading.size, reading.source)
    holding = [(luid, facts) for luid, facts in adapters.items() if any(fact.value_or(0) for fact in facts.values())]
    for luid, facts in holding:
        own = [(pid, r) for r in readings if (pid := _PID.match(r.instance)) and r.instance.endswith(luid)]
        held: dict[int, dict[str, Fact[Any]]] = {}
        for pid, reading in own:
            name = "vram_bytes" if reading.kind == "vram_used_bytes" else "shared_bytes"
            held.setdefault(int(pid[1]), {})[name] = reported_fact(reading.size, reading.source)
        busy = [
            GpuProcess(pid=pid, **sizes) for pid, sizes in held.items() if any(f.value_or(0) for f in sizes.values())
        ]
        if own:
            facts["processes"] = reported_fact(busy[:_MOST_PROCESSES], own[0][1].source)
    return dict(holding[:MOST_GPUS])


def parse_counted_gpus(text: str, source: str = COUNTERS_SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """One GPU for each adapter that holds memory, in order of appearance; the counters do not name it."""
    found: dict[tuple[str, str], CounterReading] = {}
    for parse in (_of_typeperf, _of_get_counter, _of_lists):
        for reading in parse(text, source, first_line):
            found[reading.instance, reading.kind] = reading  # the last value of each counts
    adapters = facts_by_adapter(list(found.values()))
    return tuple(gpu_of(index, "", source, facts) for index, facts in enumerate(adapters.values()))


def _of_typeperf(text: str, source: str, first_line: int) -> Iterator[CounterReading]:
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
                    kind = _COUNTER_KINDS[match[3].lower()]
                    yield CounterReading(line.source, match[2].lower(), kind, int(number[1]))


def _of_get_counter(text: str, source: str, first_line: int) -> Iterator[CounterReading]:
    path: re.Match[str] | None = None
    for line in numbered_lines(text, source, first_line):
        if match := _PATH.search(line.text):
            path = match if '"' not in line.text else None
        elif path and (number := _NUMBER.fullmatch(line.text.strip())):
            yield CounterReading(line.source, path[2].lower(), _COUNTER_KINDS[path[3].lower()], int(number[1]))
            path = None


def _of_lists(text: str, source: str, first_line: int) -> Iterator[CounterReading]:
    """`Name : …` and below it `DedicatedUsage : …`, as Format-List prints them."""
    instance = ""
    for line in numbered_lines(text, source, first_line):
        if name := _COUNTER_NAME.search(line.text):
            instance = name[1].lower()
        elif instance and (usage := _USAGE.search(line.text)):
            yield CounterReading(line.source, instance, _COUNTER_KINDS[usage[1].lower()], int(usage[2]))


def parse_task_manager_text(text: Text) -> LogFacts:
    """The GPUs of every page of the Task Manager in a text; people type such lines amid their own words."""
    return msgspec.structs.replace(seen_gpus(text, _FORMS, parse_task_manager), spans=())


def parse_task_manager(text: str, source: str = "Task Manager", first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs whose dedicated or shared memory the text tells; none where it tells none."""
    pages: list[tuple[int | None, dict[str, Fact[Any]]]] = [(None, {})]  # The first fact of each kind counts
    for line in numbered_lines(text, source, first_line):
        # A page begins with `GPU 0`; a second line of the same memory begins one too, for titles get lost
        begin = _BEGIN.search(line.text)
        again = _DEDICATED.search(line.text) and "vram_used_bytes" in pages[-1][1]
        if begin or again:
            pages.append((int(begin[1]) if begin and begin[1] else None, {}))
        for fact, value in _page_facts(line).items():
            pages[-1][1].setdefault(fact, value)
    telling = [page for page in pages if {"vram_used_bytes", "shared_used_bytes"} & set(page[1])]
    gpus = []
    for number, (index, facts) in enumerate(telling[:MOST_GPUS]):
        vendor = facts.pop("vendor", NOT_LOOKED).value_or("")
        where = next(fact.source for fact in facts.values() if isinstance(fact, Known))
        gpus.append(gpu_of(number if index is None else index, vendor, where, facts))
    return tuple(gpus)


def _page_facts(line: NumberedLine) -> dict[str, Fact[Any]]:
    facts: dict[str, Fact[Any]] = {}
    for pattern, kind in ((_DEDICATED, "vram"), (_SHARED, "shared")):
        if sizes := pattern.search(line.text):
            facts[f"{kind}_used_bytes"] = parse_amount(f"{sizes[1]} {sizes[3]}", "GB", line.source)
            facts[f"{kind}_total_bytes"] = parse_amount(f"{sizes[2]} {sizes[3]}", "GB", line.source)
    if told := _IN_WORDS.search(line.text) or _TYPED.search(line.text):
        facts.setdefault("shared_used_bytes", parse_amount(f"{told[1]} {told[2]}", "GB", line.source))
    if _NONE_OF_ITS_OWN.search(line.text):
        none = not_supported(f"{line.source}: it has no memory of its own")
        facts |= {"vram_used_bytes": none, "vram_total_bytes": none, "kind": reported_fact("integrated", line.source)}
    if name := _NAME.search(line.text):
        facts["name"] = reported_fact(name[1].strip(), line.source)
        facts["vendor"] = reported_fact({"GeForce": "NVIDIA", "Radeon": "AMD"}.get(name[2], name[2]), line.source)
    if driver := _DRIVER.search(line.text):
        facts["driver"] = reported_fact(driver[1], line.source)
    if use := _USE.search(line.text):
        facts["busy"] = parse_amount(use[1], "%", line.source)
    if place := _PLACE.search(line.text):
        facts["bus_id"] = reported_fact(f"0000:{int(place[1]):02x}:{int(place[2]):02x}.{place[3]}", line.source)
    return facts


TEXT_DIALECTS: dict[str, TextDialect] = {
    "task_manager": parse_task_manager_text,
    "windows_counters": partial(seen_gpus, forms=_COUNTER_FORMS, parse=parse_counted_gpus),
}
