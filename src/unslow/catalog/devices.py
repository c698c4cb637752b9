"""Devices by the name that a driver reports: one TOML for each, found by presence."""

import re
from functools import cache

import msgspec

from unslow.catalog import entries, subfolders

# Words that make another device of the same number: all of them must agree. A form factor must where both name one.
MODELS = frozenset({"ti", "super", "laptop", "mobile", "max", "q", "d", "ada", "blackwell", "pro", "ultra"})
FORMS = frozenset({"pcie", "sxm", "nvl"})
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
    """As labelled; 0 where the same device is sold with many sizes."""
    driver_bytes: int = 0
    """What the driver reports as total, which error correction and firmware make less than the label."""
    driver_source: str = ""
    unified: bool = False
    """Whether its memory is the host's too."""

    @property
    def verified(self) -> bool:
        """Whether a second source was seen."""
        return self.source != "unverified"

    @property
    def capacity_bytes(self) -> int:
        """What a program sees of its memory, as far as known."""
        return self.driver_bytes or self.memory_bytes


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

    def likeness(device: Device) -> tuple[int, bool, bool]:
        """Drivers name the forms PCIe and NVL, and leave out SXM where a card has several."""
        words = words_of(device.name)
        return len(words & wanted), bool(memory_bytes and device.memory_bytes), "sxm" in words

    return max(fitting, key=likeness, default=None)


def words_of(name: str) -> frozenset[str]:
    """The words of a name that tell devices apart."""
    text = re.sub(r"[()\-/,]", " ", name.lower())
    text = re.sub(r"(?<!\d)(\d+)\s*(gb|gib)\b", r"\1gb", re.sub(r"\bsxm\d\b", "sxm", text))
    return frozenset(text.split()) - _NOISE


def same_name(wanted: frozenset[str], known: frozenset[str]) -> bool:
    """Whether all words of the known name are there, but for its memory size and a form factor nobody mentioned."""
    optional = {w for w in known if _MEMORY.match(w)} | FORMS
    if not known - optional <= wanted or not known - optional:
        return False
    forms = (wanted & FORMS, known & FORMS)
    return wanted & MODELS == known & MODELS and (forms[0] == forms[1] or not (forms[0] and forms[1]))


def _near(a: int, b: int) -> bool:
    return max(a, b) <= _NEAR_SIZE * min(a, b)
