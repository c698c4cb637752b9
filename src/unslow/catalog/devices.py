"""Devices by the name that a driver reports: one TOML for each, found by presence."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cache, lru_cache
from typing import Literal, NamedTuple

import msgspec

from unslow.catalog import entries, entry, subfolders, texts
from unslow.facts.values import GIB, MIB

MODELS = frozenset(
    {"ti", "super", "laptop", "maxq", "d", "v2", "ada", "blackwell", "pro", "ultra", "max", "xt", "xtx", "gre", "sff"}
    | {"nano", "agx", "nx"}
)
"""Words that make another device of the same number: all of them must agree."""
FORMS = frozenset({"pcie", "sxm", "nvl"})  # Forms of one chip: they must agree where both names have one
SERIES = frozenset({"rtx", "gtx", "rx", "arc", "dgx", "jetson"})
"""Words that a person may leave out: the number alone says which device it is."""
_VENDORS = {
    "NVIDIA": frozenset({"nvidia", "geforce", "tesla", "quadro"}),
    "AMD": frozenset({"amd", "radeon", "instinct", "ryzen"}),
    "Intel": frozenset({"intel"}),
    "Apple": frozenset({"apple"}),
}
_OF_SERIES = {"rtx": "NVIDIA", "gtx": "NVIDIA", "rx": "AMD", "arc": "Intel"}
_MAKERS = frozenset({"nvidia", "geforce", "tesla", "quadro", "amd", "radeon", "instinct", "intel", "apple"})
_NOISE = _MAKERS | {
    *("card", "chip", "corporation", "cpu", "design", "desktop", "edition", "generation", "gpu", "graphics", "inc"),
    *("memory", "processor", "ram", "server", "unified", "vram", "with", "workstation", "channel"),
    *("hbm2", "hbm2e", "hbm3", "hbm3e"),
}
_SAME = {"mobile": "laptop", "notebook": "laptop", "sxm2": "sxm", "sxm3": "sxm", "sxm4": "sxm", "sxm5": "sxm"}
_WRITTEN_SIZE = re.compile(r"(?<![\w.])\d{1,9}(?:\.\d{1,9})?\s*(?:g(?:i?b)?|mi?b)\b")
_CORES = re.compile(r"(?<![\w.])(\d{1,3}) ?(?:gpu ?)?cores?\b")
_FEW = "[2-9]|1[0-6]"
_COUNT = re.compile(rf"(?<![\w.])({_FEW}) ?x ?(?=[a-z])|(?<![\w.])(?<!\.\d )x ?({_FEW})(?= ?(?:$|[(),]))|^(dual|quad) ")
_NUMBERS = {"dual": 2, "quad": 4}
_PLAIN = (
    (re.compile(r"×"), "x"),
    (re.compile(r"\((?:r|tm|c)\)|[®™]"), " "),
    (re.compile(r"\bw/"), " with "),
    (re.compile(r"\bmax[- ]?q\b"), " maxq "),
    (re.compile(r"\bpci[- ]?e(?:xpress)?\b"), " pcie "),
    (re.compile(r"\b(?:macbook (?:pro|air)|mac (?:studio|mini|pro)|imac)\b"), " "),
)
_PUNCTUATION = re.compile(r"[()\[\]{}\-/,;:_+@&|\"'`]")
_GRAPHICS_MEMORY = re.compile(r"\bgddr\d\w*")
_GLUED = (
    (re.compile(r"\b(nvidia|amd|geforce|radeon|quadro|tesla|apple)(?=[a-z]*\d)"), r"\1 "),
    (re.compile(r"\b(rtx|gtx|rx|arc|pi)(?=[a-z]?\d)"), r"\1 "),
    (re.compile(r"(?<=\d)(ti|super|xtx|xt|gre|d|max|pro|ultra|laptop|mobile)(?=\b|super)"), r" \1 "),
    (re.compile(r"\bmi (?=\d)"), "mi"),
)
_BRACKETS = re.compile(r"\[([^\[\]]+)\]")
_PCI_ID = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4})?|AMD/ATI")
_DIGIT = re.compile(r"\d")
_LONGEST = 400  # letters; what comes after them is no name
GRAPHICS = ("gpu", "unified")  # the kinds of devices that a graphics driver can name
_NEAR_SIZE = 1.12  # drivers report a little less than the label
_REMARK = re.compile(r"\([^()]*\)")
_SIZE = re.compile(r"([\d.]+)\s*([gm])")
_NAME, _KIND = (re.compile(rf'^{key} = "([^"\\]*)"$', re.MULTILINE) for key in ("name", "kind"))
_ALSO = re.compile(r"^also = \[([^\[\]\\#']*)\]$", re.MULTILINE)
_QUOTED = re.compile(r'"([^"]*)"')
_A_PROCESSOR = 'kind = "cpu"'


class Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A published speed for one stream of text on a device."""

    model: str
    tokens_per_s: float
    said_by: str
    source: str
    note: str = ""


class Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a datasheet says; `source` is that of the bandwidth, `sources` has one for each other number.

    A source is "unverified" where the number was not checked against a second table. A number that is not known is 0.
    """

    name: str
    vendor: str
    source: str
    memory_bytes_per_s: float = 0.0
    kind: Literal["gpu", "unified", "cpu", "asic"] = "gpu"
    """A GPU with a memory of its own, one that shares the host's, the host's memory, or a chip made for inference."""
    family: str = ""  # The architecture, such as ampere, rdna3 or m2
    also: tuple[str, ...] = ()  # Other names of it, in which `*` and `?` stand for any letters and for one
    usual: bool = False  # Whether a name without a size of memory and a form means this one of its variants
    memory_bytes: int = 0  # As labelled; 0 where the same device is sold with many sizes
    memory_sizes_bytes: tuple[int, ...] = ()  # The sizes that it is sold with, where they are several
    memory_channels: int = 0
    driver_bytes: int = 0
    """What the driver reports as total, which error correction and firmware make less than the label."""
    driver_source: str = ""
    units: int = 0  # Streaming multiprocessors, compute units, Xe cores, GPU cores, or the cores of a host
    clock_hz: float = 0.0  # The boost clock, as labelled
    narrow_cores: bool = False
    """Whether the cores of a host multiply vectors of 128 bits, two at once: small x86 cores, and most of Arm's."""
    fp16_flops_per_s: float = 0.0
    """Dense FP16 products and sums, by the matrix units where it has them; sums in FP16 where that is quicker."""
    fp16_acc32_flops_per_s: float = 0.0
    """The same with sums in FP32: half as many on GeForce cards since Turing, as many elsewhere."""
    fp32_flops_per_s: float = 0.0  # By the shaders
    int8_ops_per_s: float = 0.0  # Dense, by the matrix units where they can, else by dot products of four bytes (dp4a)
    l2_bytes: int = 0  # The last cache before the memory, which AMD calls Infinity Cache
    tdp_w: float = 0.0
    pcie: str = ""  # Generation and lanes, such as 4.0x16
    link_bytes_per_s: float = 0.0  # NVLink or its like, both directions together
    year: int = 0
    launch_usd: float = 0.0
    sources: dict[str, str] = {}
    results: tuple[Result, ...] = ()

    def __hash__(self) -> int:
        """By name, which is unique."""
        return hash(self.name)

    @property
    def is_unified(self) -> bool:
        return self.kind == "unified"

    @property
    def is_verified(self) -> bool:
        """Whether a second source was seen."""
        return not self.source.startswith("unverified")

    @property
    def capacity_bytes(self) -> int:
        """What a program sees of its memory, as far as known."""
        return self.driver_bytes or self.memory_bytes


class WrittenName(NamedTuple):
    """A name as written: the words that tell devices apart, and what else it says."""

    words: frozenset[str]
    sizes: tuple[str, ...] = ()
    cores: int = 0
    how_many: int = 1
    vendors: frozenset[str] = frozenset()
    phrase: str = ""  # Its words in their order but the makers, for names that mean something only side by side


class _KnownName(NamedTuple):
    file: tuple[str, str]
    words: frozenset[str]
    models: frozenset[str]
    forms: frozenset[str]

    @property
    def device(self) -> Device:
        """The device, read when a name is near it: there are hundreds."""
        return entry(*self.file, Device)


@lru_cache(maxsize=4096)
def find_device(name: str, memory_bytes: int = 0) -> Device | None:
    """The device that a driver's name means; memory settles between twins, and None where nothing does."""
    # The name within a line of lspci, `... GA102 [GeForce RTX 3090] [10de:2204]`
    inside = [text for text in _BRACKETS.findall(name[:_LONGEST]) if not _PCI_ID.fullmatch(text)]
    return _find_known([name, *inside][-1], memory_bytes) or _find_known(name, memory_bytes)


def _find_known(name: str, memory_bytes: int) -> Device | None:
    every = parse_alternatives(name) if "/" in name else []
    return (
        _only_candidate([_best(one, memory_bytes) for one in every], memory_bytes)
        or _best(parse_device_name(name), memory_bytes)
        or _best(parse_device_name(_REMARK.sub(" ", name)), memory_bytes)
    )


def _best(written: WrittenName, memory_bytes: int) -> Device | None:
    fits = [(_match_score(known, written, memory_bytes), known.device) for known in _fitting(written)]
    longest = max((likeness[0] for likeness, _ in fits), default=0)
    fits = sorted((fit for fit in fits if fit[0][0] == longest), key=lambda fit: (fit[0], fit[1].name), reverse=True)
    # What names the model, apart from its memory, its cores and its form
    if len({(parse_device_name(device.name).words - FORMS) for _, device in fits}) > 1:
        sizes = _sizes_said(written, memory_bytes)
        return _only_candidate([device for _, device in fits], *sizes)
    return fits[0][1] if fits else None


def _fitting(written: WrittenName) -> Iterator[_KnownName]:
    """The names all of whose words were written, with no word beside them that makes another device of it."""
    models, forms = written.words & MODELS, written.words & FORMS
    index = _index()
    for known in (known for word in written.words for known in index.get(word, ())):
        if known.models != models or not known.words <= written.words:
            continue
        # One short word, such as M4, is a name of several vendors' chips
        if len(known.words) == 1 and written.vendors and known.device.vendor not in written.vendors:
            continue
        if known.forms == forms or not known.forms or not forms:
            yield known


def _only_candidate(devices: Iterable[Device | None], *sizes: int) -> Device | None:
    """The only one of several models that has such a memory; any of them where all are equally fast."""
    models = list({d.name: d for d in devices if d}.values())
    fitting = [d for d in models if _has_size(d, sizes)] or models
    return fitting[0] if len({d.memory_bytes_per_s for d in fitting}) == 1 else None


def _match_score(known: _KnownName, written: WrittenName, memory_bytes: int) -> tuple[int, ...]:
    """What speaks for a device, what counts most first: words, cores, memory, form, the usual one, the largest."""
    device = known.device
    sizes = _sizes_said(written, memory_bytes)
    cores = 0 if not (written.cores and device.units) else 1 if written.cores == device.units else -1
    has_form = bool(known.forms & written.words)
    return len(known.words), cores, _has_size(device, sizes), has_form, device.usual, device.memory_bytes


def _sizes_said(written: WrittenName, memory_bytes: int) -> list[int]:
    if memory_bytes:
        return [memory_bytes]
    amounts = [match for size in written.sizes if (match := _SIZE.match(size))]
    return [int(float(amount) * (GIB if unit == "g" else MIB)) for amount, unit in (m.groups() for m in amounts)]


def _has_size(device: Device, sizes: Collection[int]) -> bool:
    """Whether it is sold with about one of these sizes of memory, or its driver says so."""
    sold = (device.memory_bytes, device.driver_bytes, *device.memory_sizes_bytes)
    pairs = ((size, own) for size in sizes for own in sold if own)
    return any(0 < max(pair) <= _NEAR_SIZE * min(pair) for pair in pairs)


@cache
def all_devices() -> tuple[Device, ...]:
    """Every device of the catalog."""
    return tuple(device for vendor in subfolders("devices") for device in entries(vendor, Device).values())


@cache
def all_processors() -> tuple[Device, ...]:
    """Every processor; other files are not parsed, for each run asks for the processor of its machine."""
    stems = [(f, stem) for f in subfolders("devices") for stem, text in texts(f).items() if _A_PROCESSOR in text]
    return tuple(entry(*file, Device) for file in stems)


@cache
def all_gpus() -> tuple[Device, ...]:
    """Every device that a graphics driver can name."""
    return tuple(d for d in all_devices() if d.kind in GRAPHICS)


@lru_cache(maxsize=64)
def slowest_gpu_of_size(memory_bytes: float) -> Device | None:
    """Of the GPUs with at least so much memory of their own, the one whose memory is slowest."""
    sized = (gpu for gpu in all_gpus() if not gpu.is_unified and gpu.memory_bytes_per_s)
    large = [g for g in sized if max(g.memory_bytes, *g.memory_sizes_bytes, g.driver_bytes) >= memory_bytes]
    return min(large, key=lambda gpu: gpu.memory_bytes_per_s, default=None)


@lru_cache(maxsize=4096)
def parse_device_name(text: str) -> WrittenName:
    """The words of a name, the sizes of memory in it, and of how many cores and devices it speaks."""
    text = text[:_LONGEST].lower()
    for pattern, plain in _PLAIN:
        text = pattern.sub(plain, text)
    how_many = next((int(m[1] or m[2] or _NUMBERS[m[3]]) for m in _COUNT.finditer(text)), 1)
    text = " ".join(_PUNCTUATION.sub(" ", _COUNT.sub(" ", text)).split())
    sizes = tuple(_WRITTEN_SIZE.findall(text))
    cores = next((int(m[1]) for m in _CORES.finditer(text)), 0)
    for pattern in (_WRITTEN_SIZE, _CORES, _GRAPHICS_MEMORY):
        text = pattern.sub(" ", text)
    for pattern, parted in _GLUED:
        text = pattern.sub(parted, text)
    words = [_SAME.get(word, word) for word in text.split()]
    vendors = frozenset(vendor for vendor, names in _VENDORS.items() if not names.isdisjoint(words))
    phrase = " ".join(word for word in words if word not in _MAKERS)
    return WrittenName(frozenset(words) - _NOISE, sizes, cores, how_many, vendors, f" {phrase} ")


def vendor_of(text: str) -> str:
    """The maker that a name names, directly or by its series; empty where it names none, or several."""
    written = parse_device_name(text)
    named = written.vendors or {_OF_SERIES[word] for word in written.words if word in _OF_SERIES}
    return next(iter(named)) if len(named) == 1 else ""


def parse_alternatives(text: str) -> list[WrittenName]:
    """The names of a list such as `Radeon RX 7900 XT/7900 XTX`, which lspci has for chips of several cards.

    What the first name says of series and number holds for the others as far as they leave it out.
    """
    first, *others = (parse_device_name(part) for part in text.split("/"))
    series, numbers = first.words & SERIES, frozenset(word for word in first.words - MODELS if _DIGIT.search(word))
    return [
        first,
        *(o._replace(words=o.words | series | (frozenset() if o.words - MODELS else numbers)) for o in others),
    ]


@cache
def _index() -> dict[str, list[_KnownName]]:
    names = [(file, parse_device_name(text).words) for file, every in names_by_file() for text in every]
    often = Counter(word for _, words in names for word in words)
    index: dict[str, list[_KnownName]] = {}
    for file, words in names:
        rarest = min(words - FORMS, key=lambda word: (often[word], word))
        index.setdefault(rarest, []).append(_KnownName(file, words - FORMS, words & MODELS, words & FORMS))
    return index


def names_by_file() -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    """Every device file except CPUs, and its names."""
    for folder in subfolders("devices"):
        for stem, text in texts(folder).items():
            name, kind, also = _NAME.search(text), _KIND.search(text), _ALSO.search(text)
            if name and kind and (also or "\nalso" not in text):  # without reading the rest
                is_cpu, names = kind[1] == "cpu", (name[1], *(_QUOTED.findall(also[1]) if also else ()))
            else:  # not written as usual
                device = entry(folder, stem, Device)
                is_cpu, names = device.kind == "cpu", (device.name, *device.also)
            if not is_cpu:
                yield (folder, stem), names
