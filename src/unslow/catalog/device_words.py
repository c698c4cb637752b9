"""The words of a device's name that tell devices apart, whoever wrote it: a driver, a table or a person."""

import re
from functools import lru_cache
from typing import NamedTuple

MODELS = frozenset(
    {"ti", "super", "laptop", "maxq", "d", "v2", "ada", "blackwell", "pro", "ultra", "max", "xt", "xtx", "gre", "sff"}
    | {"nano", "agx", "nx"}
)
"""Words that make another device of the same number: all of them must agree."""
FORMS = frozenset({"pcie", "sxm", "nvl"})
"""Forms of one chip: they must agree where both names have one."""
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
_SIZE = re.compile(r"(?<![\w.])\d{1,9}(?:\.\d{1,9})?\s*(?:g(?:i?b)?|mi?b)\b")
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


class Written(NamedTuple):
    """A name as somebody wrote it: the words that tell devices apart, and what else it says."""

    words: frozenset[str]
    sizes: tuple[str, ...] = ()
    cores: int = 0
    how_many: int = 1
    vendors: frozenset[str] = frozenset()
    phrase: str = ""
    """Its words in their order but the makers, for names that mean something only side by side."""


@lru_cache(maxsize=4096)
def parse_device_name(text: str) -> Written:
    """The words of a name, the sizes of memory in it, and of how many cores and devices it speaks."""
    text = text[:_LONGEST].lower()
    for pattern, plain in _PLAIN:
        text = pattern.sub(plain, text)
    how_many = next((int(m[1] or m[2] or _NUMBERS[m[3]]) for m in _COUNT.finditer(text)), 1)
    text = " ".join(_PUNCTUATION.sub(" ", _COUNT.sub(" ", text)).split())
    sizes = tuple(_SIZE.findall(text))
    cores = next((int(m[1]) for m in _CORES.finditer(text)), 0)
    words = _words_in(text)
    vendors = frozenset(vendor for vendor, names in _VENDORS.items() if not names.isdisjoint(words))
    phrase = " ".join(word for word in words if word not in _MAKERS)
    return Written(frozenset(words) - _NOISE, sizes, cores, how_many, vendors, f" {phrase} ")


def vendor_of(text: str) -> str:
    """The maker that a name names, by itself or by its series; empty where it names none, or several."""
    written = parse_device_name(text)
    named = written.vendors or {_OF_SERIES[word] for word in written.words if word in _OF_SERIES}
    return next(iter(named)) if len(named) == 1 else ""


def parse_alternatives(text: str) -> list[Written]:
    """The names of a list such as `Radeon RX 7900 XT/7900 XTX`, which lspci has for chips of several cards.

    What the first name says of series and number holds for the others as far as they leave it out.
    """
    first, *others = (parse_device_name(part) for part in text.split("/"))
    series, numbers = first.words & SERIES, frozenset(word for word in first.words - MODELS if _DIGIT.search(word))
    return [
        first,
        *(o._replace(words=o.words | series | (frozenset() if o.words - MODELS else numbers)) for o in others),
    ]


def in_brackets(text: str) -> str:
    """The name within a line of lspci, `... GA102 [GeForce RTX 3090] [10de:2204]`; the text itself elsewhere."""
    names = [inside for inside in _BRACKETS.findall(text[:_LONGEST]) if not _PCI_ID.fullmatch(inside)]
    return str(names[-1]) if names else text


def _words_in(text: str) -> list[str]:
    """The words of a plain text without its amounts, parted where they were glued together."""
    for pattern in (_SIZE, _CORES, _GRAPHICS_MEMORY):
        text = pattern.sub(" ", text)
    for pattern, parted in _GLUED:
        text = pattern.sub(parted, text)
    return [_SAME.get(word, word) for word in text.split()]
