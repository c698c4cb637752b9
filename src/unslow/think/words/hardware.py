"""The machine that a text tells of: its GPUs, processor, memory, system and container."""

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec

from unslow.facts.machine import Cpu, Gpu, Machine, Memory, System
from unslow.facts.units import GIB
from unslow.facts.values import NOT_LOOKED, Fact, Known, told
from unslow.think.claims.amounts import amounts
from unslow.think.claims.devices_in_text import DeviceSaid, devices_named
from unslow.think.words.lines import Line

MOST_GPUS = 64
_LABEL = re.compile(
    r"^(?:hardware|gpus?|graphics|video ?cards?|specs?|system|machine|setup|device|environment)\b[^:]{0,20}:"
)
_INTEGRATED = re.compile(
    r"\b(?:intel(?:\(r\))? (?:uhd|hd|iris)[\w() ]{0,16}|uhd graphics|iris xe"
    r"|(?:radeon )?(?:680m|780m|890m|8060s)|vega \d+)\b"
)
_ANY_GPU = re.compile(
    r"(?:(?P<n>\d{1,2}|two|dual|four|eight)[ -]?x? )?(?:\w{1,20} )??"
    r"\b(?P<vendor>nvidia|amd|radeon|geforce|rtx|intel arc|apple silicon|small|old|new|single|my|the)?\s?"
    r"(?:rdna ?\d? |cuda )?(?:amd )?gpus?\b|\b\d{1,3} ?gb (?:of )?(?=vram)"
)
_VENDORS = {"nvidia": "NVIDIA", "geforce": "NVIDIA", "rtx": "NVIDIA", "amd": "AMD", "radeon": "AMD",
            "intel arc": "Intel", "apple silicon": "Apple"}  # fmt: skip
_SIZED = re.compile(
    r"\b(\d{1,3}) ?gb (?:of )?(?:vram|gpu|video memory|graphics)|(?:gpus?|nvidia|mig)\b(?: with| of)? (\d{1,3}) ?gb\b(?! (?:of )?ram)"
)
_NUMBERS = {"two": 2, "dual": 2, "four": 4, "eight": 8}
_CPU_WORD = re.compile(
    r"\b(?:i[3579]-\d{4,5}\w*|core (?:ultra )?(?:i?[3579])[ -]?\w*|ryzen[\w ]{2,24}|threadripper[\w ]{2,20}"
    r"|epyc[\w ]{2,12}|xeon[\w ]{2,20}|celeron\w*|pentium\w*|raspberry pi \d|\d{4}[xw]\w{0,3}3?d?)\b"
)
_RAM = re.compile(
    r"\b(\d{1,4}) ?g(?:i?b|igs?)?(?: of)? (?:system )?(?:ram|memory|(?:lp)?ddr\d)\b"
    r"|\bram\W{1,3}(\d{1,4}) ?gi?b|, (\d{2,4})gb\b"
)
_DDR = re.compile(r"\b((?:lp)?ddr[345]x?)[- ]?(\d{4,5})?\b")
_SYSTEMS = (("windows", "Windows"), ("wsl", "Linux"), ("ubuntu", "Linux"), ("debian", "Linux"), ("fedora", "Linux"),
            ("arch linux", "Linux"), ("linux", "Linux"), ("macos", "macOS"), ("mac os", "macOS"), ("macbook", "macOS"),
            ("mac studio", "macOS"), ("mac mini", "macOS"), ("apple silicon", "macOS"))  # fmt: skip
_CONTAINERS = (
    ("docker", "docker"),
    ("podman", "podman"),
    ("kubernetes", "kubernetes"),
    ("k8s", "kubernetes"),
    ("lxc", "lxc"),
)
_NONE = re.compile(r"\bcpu[- ]only\b|\bno gpu\b|\bwithout (?:a )?gpu\b")
_HEAD = re.compile(r"^(?:hardware|runtime|machine|system|specs?|gpus?)\b[^:]{0,20}:")
_PROCESSOR = re.compile(r"(?:ryzen|core|amd ryzen|intel core|xeon|epyc)\b(?!.*(?:radeon|ai max|graphics))")


def machine_told(lines: Sequence[Line]) -> Machine:
    """What the text says of the machine."""
    gpus = _gpus(lines)
    memory = _memory(lines)
    if memory.total_bytes == NOT_LOOKED:
        memory = msgspec.structs.replace(memory, total_bytes=_unified_memory(lines, gpus))
    return Machine(
        system=System(name=_first(lines, _SYSTEMS), container=_first(lines, _CONTAINERS)),
        cpu=_cpu(lines),
        memory=memory,
        gpus=gpus,
    )


def _first(lines: Sequence[Line], words: Sequence[tuple[str, str]]) -> Fact[str]:
    for line in lines:
        for word, name in words:
            if re.search(rf"\b{word}\b", line.text):
                return told(name, line.where)
    return NOT_LOOKED


def _gpus(lines: Sequence[Line]) -> Fact[tuple[Gpu, ...]]:
    """The GPUs of the line that describes the machine, else of the first that names one; else any GPU at all."""
    ordered = [*(line for line in lines if _LABEL.match(line.text)), *lines]
    if absent := next((x for x in ordered if _NONE.search(x.text) and _HEAD.match(x.text)), None):
        return told((), absent.where)
    for line in ordered:
        if said := _said(line):
            gpus = list(chain.from_iterable(_named(s, line.where) for s in said))[:MOST_GPUS]
            return told(tuple(_numbered([*gpus, *_integrated(line, said)])), line.where)
    return _nameless(ordered)


def _said(line: Line) -> list[DeviceSaid]:
    """The devices of a line that can compute; what follows a semicolon is another machine."""
    first = line.text.partition(";")[0]
    said = devices_named(first, line.original[: len(first)], amounts(first))
    return [s for s in said if s.devices and not _PROCESSOR.match(first[s.start : s.end])]


def _named(said: DeviceSaid, where: str) -> list[Gpu]:
    device = said.devices[0]
    facts: dict[str, Any] = {"name": told(device.name, where), "vendor": told(device.vendor, where)}
    if device.kind == "unified":
        facts["kind"] = told("integrated", where)
    elif size := said.memory_bytes or device.memory_bytes:
        facts["vram_total_bytes"] = told(int(size), where)
    return [Gpu(index=0, **facts)] * max(1, min(said.number, MOST_GPUS))


def _integrated(line: Line, said: list[DeviceSaid]) -> list[Gpu]:
    """GPUs of processors that the catalogue does not name, or names as a part of one of these."""
    known = " ".join(s.devices[0].name.lower() for s in said)
    found = [m for m in _INTEGRATED.finditer(line.text.partition(";")[0]) if m[0].strip() not in known]
    found = [m for m in found if not any(s.start < m.end() and m.start() < s.end for s in said)]
    names = (line.original[m.start() : m.end()].strip() for m in found)
    return [Gpu(index=0, name=told(n, line.where), kind=told("integrated", line.where)) for n in names]


def _numbered(gpus: list[Gpu]) -> list[Gpu]:
    return [Gpu(**{**{f: getattr(g, f) for f in g.__struct_fields__}, "index": n}) for n, g in enumerate(gpus)]


def _nameless(lines: Sequence[Line]) -> Fact[tuple[Gpu, ...]]:
    """`4 GPUs`, `an NVIDIA GPU`: there are some, whatever they are called."""
    for line in lines:
        match = _ANY_GPU.search(line.text)
        if not match or re.search(r"\b(?:no|without(?: a| any)?|non) (?:\w+ )?gpus?\b", line.text):
            continue
        vendor = _VENDORS.get((match["vendor"] or "").strip(), "")
        if not vendor and not match["n"] and not _LABEL.match(line.text):
            continue  # a sentence about GPUs in general
        number = _NUMBERS.get(match["n"] or "", 0) or int(match["n"] or 1)
        size = _SIZED.search(line.text)
        gpu = Gpu(
            index=0,
            vram_total_bytes=told(int(size[1] or size[2]) * GIB, line.where) if size else NOT_LOOKED,
            name=told(f"{vendor} GPU".strip(), line.where),
            vendor=told(vendor, line.where) if vendor else NOT_LOOKED,
        )
        return told(tuple(_numbered([gpu] * min(max(1, number), MOST_GPUS))), line.where)
    return NOT_LOOKED


def _cpu(lines: Sequence[Line]) -> Cpu:
    for line in lines:
        if match := _CPU_WORD.search(line.text):
            name = line.original[match.start() : match.end()].strip()
            sockets = re.search(r"\b(?:2x|two|dual)\W{0,2}$", line.text[: match.start()])
            return Cpu(model=told(name, line.where), sockets=told(2, line.where) if sockets else NOT_LOOKED)
    return Cpu()


def _unified_memory(lines: Sequence[Line], gpus: Fact[tuple[Gpu, ...]]) -> Fact[int]:
    """`M2 Max 64GB`: the size that is named with a chip whose GPU shares the memory of the host."""
    line = next((line for line in lines if isinstance(gpus, Known) and line.where == gpus.source), None)
    sizes = [s.memory_bytes for s in _said(line) if s.devices[0].kind == "unified" and s.memory_bytes] if line else []
    return told(int(sizes[0]), line.where) if line and sizes else NOT_LOOKED


def _memory(lines: Sequence[Line]) -> Memory:
    total: Fact[int] = NOT_LOOKED
    kind: Fact[str] = NOT_LOOKED
    for line in lines:
        size = _RAM.search(line.text)
        if size and not isinstance(total, Known) and "vram" not in line.text[size.start() : size.end() + 6]:
            number = int(size[1] or size[2] or size[3])
            if 1 <= number <= 8192:  # noqa: PLR2004 (GB of RAM that machines have)
                total = told(number * GIB, line.where)
        if (ddr := _DDR.search(line.text)) and not isinstance(kind, Known):
            kind = told(f"{ddr[1].upper()}-{ddr[2]}" if ddr[2] else ddr[1].upper(), line.where)
    return Memory(total_bytes=total, kind=kind)
