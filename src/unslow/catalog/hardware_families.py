"""What holds for a whole family of hardware, with or without a datasheet: processors, GPUs, memory, links."""

import re
from collections.abc import Iterable
from functools import cache, lru_cache, partial
from typing import TypeVar

import msgspec

from unslow.catalog import entries
from unslow.catalog.devices import find_device, vendor_of
from unslow.facts.machine import Gpu
from unslow.facts.values import GIB

# Which of several patterns a device's name fits best: words in a row, in which `*` and `?` stand for letters.
# `*` and `?` are any letters and one letter of a word, `[4-9]` one of several; a `*` that stands alone is any words.

T = TypeVar("T")
_MARKS = re.compile(r"\((?:r|tm|c)\)|[®™]", re.IGNORECASE)
_GLUED = re.compile(r"\b(gtx?|rtx|rx)(?=\d)|(?<=\d)(?=ti\b)")
_NO_WORD = re.compile(r"(?:[^a-z0-9.]|\bcpu\b)+")
_CLASS = re.compile(r"\[[\w-]+\]")
_LONGEST = 400  # letters; what comes after them is no name


class CpuFamily(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """CPUs by their names, and the instruction sets that all of them have, as llama.cpp calls them."""

    names: tuple[str, ...]
    instruction_sets: tuple[str, ...]
    source: str


class GpuFamily(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A family, by the file's name as devices call it; `names` are those of cards without a datasheet of their own."""

    vendor: str
    source: str
    names: tuple[str, ...] = ()
    compute_capability: str = ""  # The highest of NVIDIA's that a chip of it has
    rocm: bool | None = None
    """Whether the ROCm libraries that Ollama shipped before it knew Vulkan have code for it; None where that varies."""
    unified: bool = False  # Whether it uses the host's memory


class MemoryKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of memory or link."""

    words: tuple[str, ...]  # As a text has it, in small letters
    name: str
    low_bytes_per_s: float
    high_bytes_per_s: float
    source: str


class Share(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part that is the GPU's, from a size of the whole on."""

    from_bytes: int
    share: float


class UnifiedMemory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a vendor's systems divide one memory; `note` says what changes it."""

    vendor: str
    shares: tuple[Share, ...]
    note: str
    source: str
    largest_gib: dict[str, int] = {}  # The most memory that each chip was sold with

    def gpu_bytes(self, total_bytes: int) -> int:
        """The most that the GPU can have of so much memory."""
        share = max((s for s in self.shares if s.from_bytes <= total_bytes), key=lambda s: s.from_bytes)
        return int(total_bytes * share.share)

    def largest_bytes(self, name: str) -> int:
        """The most that a chip of this name can have; 0 where it is not known."""
        found = max((chip for chip in self.largest_gib if chip.lower() in name.lower()), key=len, default="")
        return self.largest_gib.get(found, 0) * GIB


gpu_families = partial(entries, "gpu_families", GpuFamily)  # Every family by its name


@lru_cache(maxsize=1024)
def find_cpu_family(name: str) -> CpuFamily | None:
    """The family of a name; None where none is sure."""
    families = entries("cpu_families", CpuFamily).values()
    return best_fit(name, ((pattern, family) for family in families for pattern in family.names))


@lru_cache(maxsize=4096)
def find_gpu_family(name: str) -> GpuFamily | None:
    """The family of a driver's name, by its patterns, else by the datasheet; None where neither does."""
    by_name = best_fit(name, ((pattern, family) for family in gpu_families().values() for pattern in family.names))
    device = find_device(name)
    return by_name or (gpu_families().get(device.family) if device else None)


def gpu_maker(gpu: Gpu) -> str:
    """The maker by the name that the catalog uses; empty where unknown."""
    name = gpu.name.value_or("")
    known = find_device(name) or find_gpu_family(name)
    named = known.vendor if known else vendor_of(name)
    return str(gpu.vendor.value_or(named) or named)


def best_fit(name: str, patterns: Iterable[tuple[str, T]]) -> T | None:
    """What belongs to the pattern that says most of the name; None where none fits."""
    text = _GLUED.sub(r"\g<0> ", _MARKS.sub(" ", name[:_LONGEST]).lower())
    plain = f" {_NO_WORD.sub(' ', text).strip()} "
    fits = []
    for pattern, thing in patterns:
        if _compile_pattern(pattern).search(plain):  # more words are better, then fewer that are left open
            words = [word for word in pattern.split() if word != "*"]
            left_open = len(_CLASS.findall(pattern)) + sum(word.count("?") + word.count("*") for word in words)
            fits.append(((len(words), -left_open - 10 * pattern.split().count("*"), len(pattern)), thing))
    return max(fits, key=lambda fit: fit[0])[1] if fits else None


@lru_cache(maxsize=1024)
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    words = []
    for word in pattern.lower().split():
        parts = re.split(r"(\[[\w-]+\])", word)
        parts[::2] = (re.escape(part).replace(r"\*", "[^ ]*").replace(r"\?", "[^ ]") for part in parts[::2])
        words.append(".*" if word == "*" else "".join(parts))
    return re.compile(f" {' '.join(words)} ".replace(" .* ", " (?:.* )?"))


@cache
def memory_kinds() -> tuple[MemoryKind, ...]:
    """Every kind, those with the longest words first: HBM3e before HBM3."""
    return tuple(sorted(entries("memory_kinds", MemoryKind).values(), key=lambda kind: -max(map(len, kind.words))))


@cache
def unified_memory(vendor: str) -> UnifiedMemory:
    """How the systems of a vendor divide their memory; a KeyError where none of them is unified."""
    return {kind.vendor: kind for kind in entries("unified_memory", UnifiedMemory).values()}[vendor]
