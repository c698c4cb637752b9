"""Everything that prose tells, as facts: the machine, and settings such as `24 threads on 6 cores`, `top_k 0`."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from unslow.catalog.bug_reports import number_phrases
from unslow.facts.account import Account
from unslow.facts.machine import Cpu, Gpu, Machine, Memory, System
from unslow.facts.merge import bound_facts, overlaid
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import PastLoad, Runtime, short_path
from unslow.facts.snapshot import Subject
from unslow.facts.values import GB, GIB, MB, MHZ, MIB, NOT_LOOKED, Fact, Known, first_known, told_fact
from unslow.think.claims.amounts import amounts
from unslow.think.claims.devices import NUMBERS, DeviceSaid, devices_named
from unslow.think.text.comparisons import comparisons_told, slow_metric, speed_told, versions_compared
from unslow.think.text.lines import Line, printed_lines, prose_lines, remarks_told
from unslow.think.text.rates import slowdown
from unslow.think.text.sides import settings_in_use
from unslow.think.text.software import model_told, versions_told


class ProseFacts(NamedTuple):
    """What a person says of one machine and one runtime."""

    machine: Machine
    subject: Subject


def read_words(lines: Sequence[str], source: str, numbers: Sequence[int] = ()) -> ProseFacts:
    """The facts in a text of prose; lines that a program printed are left to the logs. `numbers` are those of lines."""
    read, output = tuple(prose_lines(lines, source, numbers)), list(printed_lines(lines, source, numbers))
    found = numbers_told(output, "runtime.placement.gpu_refused") | numbers_told(read)
    versions = versions_told(read)
    measured_before, measured_since = versions_compared(read)
    facts: dict[str, Any] = _of(found, "runtime.")
    runtime = Runtime(name=versions.name, version=versions.version).with_facts(loads=_loads(read), **facts)
    machine = overlaid(
        machine_told(read),
        Machine(cpu=Cpu(**_of(found, "machine.cpu.")), memory=Memory(**_of(found, "machine.memory."))),
    )
    machine = msgspec.structs.replace(machine, gpus=_gpus_with(found, machine.gpus, read))
    account = Account(
        remarks=_some(remarks_told(read, output)),
        comparisons=_some(comparisons_told(read)),
        slow_metric=slow_metric(read),
        slowdown=next((told_fact(times, x.where) for x in read if (times := slowdown(x.text))), NOT_LOOKED),
        version_before=first_known(measured_before, versions.before),
        version_since=first_known(measured_since, versions.since),
    )
    run = Run(decode_tokens_per_s=speed_told(read, "decode"), prefill_tokens_per_s=speed_told(read, "prefill"))
    subject = Subject(
        runtime=runtime,
        model=overlaid(model_told(read, versions.name.value_or("")), Model(**_of(found, "model."))),
        run=overlaid(run, Run(**_of(found, "run."))),
        account=account,
    )
    return ProseFacts(bound_facts(machine), bound_facts(subject))


def _of(found: dict[str, Known[Any]], prefix: str) -> dict[str, Known[Any]]:
    return {short_path(path).removeprefix(prefix): fact for path, fact in found.items() if path.startswith(prefix)}


def _some(items: tuple[Any, ...]) -> Fact[tuple[Any, ...]]:
    return told_fact(items, items[0].source) if items else NOT_LOOKED


def _loads(lines: Sequence[Line]) -> Fact[list[PastLoad]]:
    """Several context lengths that one line gives in turn."""
    for line in lines:
        if match := _CONTEXTS.search(line.text):
            contexts = [told_fact(int(number), line.where) for number in re.findall(r"\d{3,7}", match[1])]
            loads = [PastLoad(context_length=context, source=line.where) for context in contexts]
            return told_fact(loads, line.where)
    return NOT_LOOKED


_USAGE = re.compile(r"\b(\d{1,6}) ?mib\s{0,3}/\s{0,3}(\d{3,6}) ?mib\b")


def _gpus_with(
    found: dict[str, Known[Any]], gpus: Fact[tuple[Gpu, ...]], lines: Sequence[Line]
) -> Fact[tuple[Gpu, ...]]:
    """The GPUs with what is said of "the GPU", which is the first, and of each of them.

    Also with fragments of nvidia-smi, where there are as many of them as GPUs.
    """
    if not isinstance(gpus, Known):
        return gpus
    shown = [(int(m[1]) * MIB, int(m[2]) * MIB, line.where) for line in lines for m in _USAGE.finditer(line.text)]
    usages = [
        {"vram_used_bytes": told_fact(used, where), "vram_total_bytes": told_fact(total, where)}
        for used, total, where in shown
        if used <= total
    ]
    if not len(shown) == len(usages) == len(gpus.value):
        usages = [{} for _ in gpus.value]
    first, each = _of(found, "machine.gpus.0."), _of(found, "machine.gpus.each.")
    known = list(gpus.value)
    for number, usage in enumerate(usages):
        for facts in ({} if number else first, usage, each):
            known[number] = bound_facts(overlaid(known[number], Gpu(index=known[number].index, **facts)))
    return Known(tuple(known), gpus.origin, gpus.source)


MOST_GPUS = 16
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
    r"\b(\d{1,3}) ?gb (?:of )?(?:vram|gpu|video memory|graphics)"
    r"|(?:gpus?|nvidia|mig)\b(?: with| of)? (\d{1,3}) ?gb\b(?! (?:of )?ram)"
)
_NEAR = 20
_CARD_NUMBER = re.compile(r"(?:(?:10|16|20|30|40|50)[5-9]0|3500|[67][6-9]00)s?")
_FLAGSHIP = re.compile(r"[345]0[6-9]0s?")
_NO_CARD = re.compile(
    r"(?:\bport|\bbuild|:|=|\bddr\d\w?|\bryzen(?: \d)?|\bcore|\bversion|\bseed|\bpid|\bline|#"
    r"|\bctx|\bcontext|[-_]\w+|\()\s?$"
)
_CARD_BEFORE = re.compile(r"\b(?:gpus?|cards?|nvidia|geforce|amd|radeon|my|an?|single|dual|two|\d ?x)\W{1,2}$")
_CARD_AFTER = re.compile(r"\W{1,2}(?:gpus?|cards?|ti\b|super|xtx?\b|\d{1,3} ?gb|vram|alone|only)")
_COUNT_BEFORE = re.compile(
    rf"(?:(?<![\w.])(\d{{1,2}})\s?x\s?|\b({'|'.join(NUMBERS)})(?: of)?\s(?:\w+\s)?)"
    r"(?:nvidia |amd |geforce |radeon |intel )*$"
)
_COUNT_AFTER = re.compile(r"s?\s?\(?x\s?(\d{1,2})\b")
_CPU_WORD = re.compile(
    r"\b(?:i[3579]-\d{4,5}\w*|core (?:ultra )?i?[3579](?:[ -]\w*\d\w*)?"
    r"|ryzen(?: ai)?(?: (?:threadripper|max\+?|pro|\d))*(?: pro)?(?: \w*\d{3,4}\w*)?"
    r"|threadripper(?: pro)?(?: \w*\d\w*)?"
    r"|epyc(?: \w*\d\w*)?|xeon(?:\(r\))?(?: (?:gold|silver|platinum|bronze|max|cpu|w|d))*(?:[ -]\w*\d\w*)?(?: v\d)?"
    r"|celeron(?: \w*\d\w*)?|pentium(?: \w*\d\w*)?|raspberry pi \d|\d{4}[xw]\w{0,3}3?d?)\b"
)
_RAM = re.compile(
    r"(?<![\d.])\b(\d{1,4}) ?g(?:i?b|igs?)?(?: of)? (?:system )?(?:ram|memory|(?:lp)?ddr\d)\b"
    r"|\bram\W{1,3}(\d{1,4}) ?gi?b|, (\d{2,4})gb\b"
)
_OF_A_MAC = re.compile(r"(?<![\d.])(\d{1,3}) ?gb\b(?! (?:ssd|disk|storage|model))")
_DDR = re.compile(r"\b((?:lp)?ddr[345]x?)[- ]?(\d{4,5})?\b")
_SYSTEMS = (
    ("windows", "Windows"), ("win10", "Windows"), ("win11", "Windows"), ("wddm", "Windows"), (r"\w+\.exe", "Windows"),
    (r"[cd]:(?=\\)", "Windows"), ("wsl", "Linux"), ("ubuntu", "Linux"), ("debian", "Linux"), ("fedora", "Linux"),
    ("arch linux", "Linux"), ("linux", "Linux"), ("macos", "macOS"), ("mac os", "macOS"), ("macbook", "macOS"),
    ("mac studio", "macOS"), ("mac mini", "macOS"), ("apple silicon", "macOS"),
)  # fmt: skip
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
        # `M2 Max 64GB`: the size that is named with a chip whose GPU shares the memory of the host
        line = next((line for line in lines if isinstance(gpus, Known) and line.where == gpus.source), None)
        chips = [s for s in _devices_in(line) if s.devices[0].kind == "unified"] if line else []
        sizes = [s.memory_bytes for s in chips if s.memory_bytes]
        if line and not sizes and any(s.devices[0].vendor == "Apple" for s in chips):
            sizes = [int(found[1]) * GIB for found in _OF_A_MAC.finditer(line.text)]
        unified_memory = told_fact(int(sizes[0]), line.where) if line and sizes else NOT_LOOKED
        memory = msgspec.structs.replace(memory, total_bytes=unified_memory)
    return Machine(
        system=System(name=_first(lines, _SYSTEMS), container=_first(lines, _CONTAINERS)),
        cpu=_cpu(lines),
        memory=memory,
        gpus=gpus,
    )


def _first(lines: Sequence[Line], words: Sequence[tuple[str, str]]) -> Fact[str]:
    for line in lines:
        for word, name in words:
            if re.search(rf"\b{word}(?!\w)", line.text):
                return told_fact(name, line.where)
    return NOT_LOOKED


def _gpus(lines: Sequence[Line]) -> Fact[tuple[Gpu, ...]]:
    """The GPUs of the line that describes the machine, else of the first that names one; else any GPU at all."""
    ordered = [*(line for line in lines if _LABEL.match(line.text)), *lines]
    if absent := next((x for x in ordered if _NONE.search(x.text) and _HEAD.match(x.text)), None):
        return told_fact((), absent.where)
    for line in ordered:
        if said := _devices_in(line):
            gpus = list(chain.from_iterable(_gpus_named(s, line) for s in said))[:MOST_GPUS]
            # GPUs of processors that the catalog does not name, or names as a part of one of these
            known = " ".join(s.devices[0].name.lower() for s in said)
            found = [m for m in _INTEGRATED.finditer(line.text.partition(";")[0]) if m[0].strip() not in known]
            found = [m for m in found if not any(s.start < m.end() and m.start() < s.end for s in said)]
            names = (line.original[m.start() : m.end()].strip() for m in found)
            integrated = [
                Gpu(index=0, name=told_fact(n, line.where), kind=told_fact("integrated", line.where)) for n in names
            ]
            both = enumerate([*gpus, *integrated])
            return told_fact(tuple(msgspec.structs.replace(gpu, index=n) for n, gpu in both), line.where)
    return _unnamed_gpus(ordered)


def _devices_in(line: Line) -> list[DeviceSaid]:
    """The devices of a line that can compute; what follows a semicolon is another machine."""
    first = line.text.partition(";")[0]
    said = devices_named(first, line.original[: len(first)], amounts(first))
    return [s for s in said if s.devices and not _PROCESSOR.match(first[s.start : s.end]) and _is_meant(first, s)]


def _is_meant(text: str, said: DeviceSaid) -> bool:
    """Whether a bare number is a card: one that is sold under it alone, and not a port, a build or a clock."""
    name = text[said.start : said.end]
    if not re.fullmatch(r"\d+s?", name):
        return True
    before, after = text[max(0, said.start - _NEAR) : said.start], text[said.end : said.end + _NEAR]
    if not _CARD_NUMBER.fullmatch(name) or _NO_CARD.search(before):
        return False
    return bool(_FLAGSHIP.fullmatch(name) or _CARD_BEFORE.search(before) or _CARD_AFTER.match(after))


def _gpus_named(said: DeviceSaid, line: Line) -> list[Gpu]:
    device, where, text = said.devices[0], line.where, line.text
    # The catalog's name; as written where a letter follows that the catalog's name lacks: an L40S is no L40
    name, written = device.name, line.original[said.start : said.end]
    other = written.endswith("S") and not name.upper().endswith("S") and said.number == 1
    facts: dict[str, Any] = {
        "name": told_fact(written if other else name, where),
        "vendor": told_fact(device.vendor, where),
    }
    if device.kind == "unified":
        facts["kind"] = told_fact("integrated", where)
    elif size := said.memory_bytes or device.memory_bytes:
        facts["vram_total_bytes"] = told_fact(int(size), where)
    # How many: only `2x` and words count, since `Windows 11 RTX 4070` has a number before it too
    before = _COUNT_BEFORE.search(text[max(0, said.start - _NEAR) : said.start])
    after = _COUNT_AFTER.match(text, said.end)
    number = int(after[1]) if after else 1
    if before:
        number = NUMBERS.get(before[2] or "", 0) or int(before[1])
    return [Gpu(index=0, **facts)] * max(1, min(number, MOST_GPUS))


def _unnamed_gpus(lines: Sequence[Line]) -> Fact[tuple[Gpu, ...]]:
    """`4 GPUs`, `an NVIDIA GPU`: there are some, whatever they are called."""
    for line in lines:
        match = _ANY_GPU.search(line.text)
        if not match or re.search(r"\b(?:no|without(?: a| any)?|non) (?:\w+ )?gpus?\b", line.text):
            continue
        vendor = _VENDORS.get((match["vendor"] or "").strip(), "")
        if not vendor and not match["n"] and not _LABEL.match(line.text):
            continue  # a sentence about GPUs in general
        number = NUMBERS.get(match["n"] or "", 0) or int(match["n"] or 1)
        size = _SIZED.search(line.text)
        gpu = Gpu(
            index=0,
            vram_total_bytes=told_fact(int(size[1] or size[2]) * GIB, line.where) if size else NOT_LOOKED,
            name=told_fact(f"{vendor} GPU".strip(), line.where),
            vendor=told_fact(vendor, line.where) if vendor else NOT_LOOKED,
        )
        places = range(min(max(1, number), MOST_GPUS))
        return told_fact(tuple(msgspec.structs.replace(gpu, index=place) for place in places), line.where)
    return NOT_LOOKED


def _cpu(lines: Sequence[Line]) -> Cpu:
    for line in lines:
        if match := _CPU_WORD.search(line.text):
            name = line.original[match.start() : match.end()].strip()
            sockets = re.search(r"\b(?:2x|two|dual)\W{0,2}$", line.text[: match.start()])
            return Cpu(model=told_fact(name, line.where), sockets=told_fact(2, line.where) if sockets else NOT_LOOKED)
    return Cpu()


def _memory(lines: Sequence[Line]) -> Memory:
    total: Fact[int] = NOT_LOOKED
    kind: Fact[str] = NOT_LOOKED
    for line in lines:
        size = _RAM.search(line.text)
        if size and not isinstance(total, Known) and "vram" not in line.text[size.start() : size.end() + 6]:
            number = int(size[1] or size[2] or size[3])
            if 1 <= number <= 8192:  # noqa: PLR2004 (GB of RAM that machines have)
                total = told_fact(number * GIB, line.where)
        if (ddr := _DDR.search(line.text)) and not isinstance(kind, Known):
            kind = told_fact(f"{ddr[1].upper()}-{ddr[2]}" if ddr[2] else ddr[1].upper(), line.where)
    return Memory(total_bytes=total, kind=kind)


_SCALE = {"gib": GIB, "gb": GB, "g": GB, "mib": MIB, "mb": MB, "tb": 1000 * GB}
_MOST = 2**53
_SECONDS = {"m": 60.0, "h": 3600.0}
_BACKENDS = {"vulkan": "Vulkan", "sycl": "SYCL", "rocm": "ROCm", "hip": "ROCm", "metal": "Metal", "opencl": "OpenCL"}
_FEW = {"two": 2, "three": 3, "four": 4}
_AT_LEAST = {"a few": 2, "several": 2, "many": 2, "minutes": 2, "hours": 60}
"""Minutes that these words stand for, at the least."""
_OTHER_WAY = re.compile(
    r"\b(?:than|instead of|rather than|versus|vs\.?|unlike|compared (?:to|with)|as (?:slow|bad|fast) as) (?:with "
    r"|using |at |on )?$"
)
"""What a setting stands behind that is held against the one at hand."""
_QUICKER_PLACE = re.compile(
    r"\b(?:local (?:nvme|ssd|disk|copy)|copy on|copied to|second (?:time|load)|page cache|cached|warm)\b"
)
"""A load from there is what a slow one is held against."""
_LAYERS = (
    re.compile(r"\b(\d{1,3}) ?(?:/|of|out of) ?(\d{1,3}) (?:\w+ )?layers?\b"),
    re.compile(r"\blayers?[^.;\d]{0,16}(\d{1,3}) ?/ ?(\d{1,3})\b"),
)
_ONLY = re.compile(r"\bonly (\d{1,3}) layers?\b|\b(\d{1,3}) layers? (?:offloaded|on (?:the )?gpu|in vram)\b")
_ALL = re.compile(r"(?:max|all|of|total)\W{1,3}(\d{1,3}) layers?\b|\b(\d{1,3}) layers? (?:in total|total)\b")
_CONTEXTS = re.compile(
    r"(?:--ctx-size|num_ctx|\bctx|context(?: size| length)?|(?<![\w-])-c)[ =]"
    r"((?:\d{3,7}(?:, | then | and |/| > ?)){1,12}\d{3,7})"
)
_OF_OTHERS = re.compile(
    r"\b(?:read ?me|docs?|documentation|blog|article|reddit|friends?|colleagues?|co-?workers?|guy|(?:he|she"
    r"|they) (?:has|have|gets?)"
    r"|other (?:people|users)|youtube|vendor|website)\b"
)
"""In a line about another machine, or one that quotes a page."""


def numbers_told(lines: Sequence[Line], only: str = "") -> dict[str, Known[Any]]:
    """Facts by their dotted path, or that of one path only; of each, what is said to be in use, else the first."""
    found: dict[str, Known[Any]] = {}
    for line, sentence in settings_in_use(lines):
        for path, value in _of_line(sentence):
            if path.startswith("runtime.") and (not only or path == only):
                found.setdefault(path, told_fact(value, line.where))
    for line in lines:
        for path, value in (*_of_line(line.text), *layers_of(line.text)):
            elsewhere = path.startswith("machine.") and bool(_OF_OTHERS.search(line.text))
            elsewhere = elsewhere or (path == "run.load_s" and bool(_QUICKER_PLACE.search(line.text)))
            if (not only or path == only) and not elsewhere:
                found.setdefault(path, told_fact(value, line.where))
    return found


def _of_line(text: str) -> Iterator[tuple[str, Any]]:
    for phrase in number_phrases():
        match = phrase.says.search(text)
        if match is None or _OTHER_WAY.search(text[: match.start()]):
            continue
        value = _READERS[phrase.kind]([group for group in match.groups() if group is not None])
        if isinstance(value, str | list) or 0 <= value < _MOST:
            yield phrase.path, value


def layers_of(text: str) -> Iterator[tuple[str, int]]:
    """How many layers are on the GPU, and of how many."""
    for pattern in _LAYERS:
        if (match := pattern.search(text)) and int(match[1]) <= int(match[2]):
            yield "runtime.placement.gpu_layers", int(match[1])
            yield "runtime.placement.layers", int(match[2])
            return
    if match := _ALL.search(text):
        yield "runtime.placement.layers", int(match[1] or match[2])
    elif match := _ONLY.search(text):
        yield "runtime.placement.gpu_layers", int(match[1] or match[2])


def _cpu_list(groups: list[str]) -> int:
    first, _, last = groups[-1].partition("-")
    return int(last) - int(first) + 1 if last else int(first)


def _share_of(groups: list[str]) -> float:
    part, whole = float(groups[0]), float(groups[1])
    return part / whole if 0 < part <= whole else 0.0


_READERS: dict[str, Callable[[list[str]], Any]] = {
    "count": lambda groups: int(float(groups[-1])),
    "number": lambda groups: float(groups[-1]),
    "thousands": lambda groups: int(groups[-1]) * 1024,
    "percent": lambda groups: float(groups[-1]) / 100,
    "bytes": lambda groups: int(float(groups[-2]) * _SCALE[groups[-1]]),
    "backends": lambda groups: [_BACKENDS.get(groups[-1], groups[-1])],
    "word": lambda groups: groups[-1],
    "phrase": lambda groups: groups[0],
    "switch": lambda groups: groups[-1] in ("on", "1", "true", "enabled"),
    "flag": lambda _groups: True,
    "cpu_list": _cpu_list,
    "seconds": lambda groups: float(groups[-2]) * _SECONDS.get(groups[-1][:1], 1.0),
    "hours": lambda groups: 3600.0 * _FEW.get(groups[-1], 1),
    "few_minutes": lambda groups: 60.0 * _AT_LEAST.get(groups[-1], 1),
    "gigabytes": lambda groups: int(groups[-1]) * GB,
    "mebibytes": lambda groups: int(groups[-1]) * MIB,
    "share_of": _share_of,
    "ratio": lambda groups: float(groups[0]) / max(1.0, float(groups[1])),
    "mhz": lambda groups: float(groups[-1]) * MHZ,
}
