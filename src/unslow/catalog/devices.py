"""Devices by the name that a driver reports: one TOML for each, found by presence."""

import re
from functools import cache

import msgspec

from unslow.catalog import entries, subfolders

# Words that make another device of the same number: all of them must agree. A form factor must where both name one.
_MODELS = frozenset({"ti", "super", "laptop", "mobile", "max", "q", "d", "ada", "blackwell", "pro", "ultra"})
_FORMS = frozenset({"pcie", "sxm", "nvl"})
_MAKERS = frozenset({"nvidia", "geforce", "amd", "radeon", "tesla", "quadro"})
_NOISE = _MAKERS | {"graphics", "generation", "gpu", "edition", "workstation", "server", "hbm3", "hbm3e", "hbm2e"}
_MEMORY = re.compile(r"^\d+gb$")
_NEAR_SIZE = 1.12  # drivers report a little less than the label


class Device(msgspec.Struct, frozen=True):
    """What a datasheet says; `source` is "unverified" where nobody checked."""

    name: str
    vendor: str
    memory_bytes_per_s: float
    source: str
    family: str = ""
    memory_bytes: int = 0

    @property
    def verified(self) -> bool:
        """Whether a second source was seen."""
        return self.source != "unverified"


@cache
def all_devices() -> tuple[Device, ...]:
    """Every device of the catalogue."""
    return tuple(device for vendor in subfolders("devices") for _, device in entries(vendor, Device))


def find_device(name: str, memory_bytes: int = 0) -> Device | None:
    """The device that a driver's name means; memory size settles between twins."""
    wanted = words_of(name)
    fitting = [d for d in all_devices() if same_name(wanted, words_of(d.name))]
    if memory_bytes:
        fitting = [d for d in fitting if not d.memory_bytes or _near(d.memory_bytes, memory_bytes)] or fitting
    # drivers name the forms PCIe and NVL, and leave out SXM where a card has several
    return max(fitting, key=lambda d: (len(words_of(d.name) & wanted), "sxm" in words_of(d.name)), default=None)


def words_of(name: str) -> frozenset[str]:
    """The words of a name that tell devices apart."""
    text = re.sub(r"[()\-/,]", " ", name.lower())
    text = re.sub(r"(\d+)\s*(gb|gib)\b", r"\1gb", re.sub(r"\bsxm\d\b", "sxm", text))
    return frozenset(text.split()) - _NOISE


def same_name(wanted: frozenset[str], known: frozenset[str]) -> bool:
    """Whether all words of the known name are there, but for its memory size and a form factor nobody mentioned."""
    optional = {w for w in known if _MEMORY.match(w)} | _FORMS
    if not known - optional <= wanted or not known - optional:
        return False
    forms = (wanted & _FORMS, known & _FORMS)
    return wanted & _MODELS == known & _MODELS and (forms[0] == forms[1] or not (forms[0] and forms[1]))


def _near(a: int, b: int) -> bool:
    return max(a, b) <= _NEAR_SIZE * min(a, b)
