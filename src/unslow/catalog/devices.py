"""Devices by the name that a driver reports: one TOML for each, found by presence."""

import re
import tomllib
from functools import cache
from importlib.resources import files

import msgspec

# Words that make another device of the same number: all of them must agree.
_VARIANTS = frozenset({"ti", "super", "laptop", "mobile", "max", "q", "d", "ada", "blackwell", "pro", "ultra"}) | {
    "pcie",
    "sxm",
    "sxm2",
    "nvl",
}
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
    vendors = (v for v in (files("unslow.catalog") / "devices").iterdir() if v.is_dir())
    texts = (f.read_text("utf-8") for v in vendors for f in v.iterdir() if f.name.endswith(".toml"))
    return tuple(msgspec.convert(tomllib.loads(t), Device) for t in texts)


def find_device(name: str, memory_bytes: int = 0) -> Device | None:
    """The device that a driver's name means; memory size settles between twins."""
    wanted = _words(name)
    fitting = [d for d in all_devices() if _same(wanted, _words(d.name))]
    if memory_bytes:
        fitting = [d for d in fitting if not d.memory_bytes or _near(d.memory_bytes, memory_bytes)] or fitting
    return max(fitting, key=lambda d: len(_words(d.name) & wanted), default=None)


def _words(name: str) -> frozenset[str]:
    words = re.sub(r"(\d+)\s*(gb|gib)\b", r"\1gb", re.sub(r"[()\-/,]", " ", name.lower())).split()
    return frozenset(words) - _NOISE


def _same(wanted: frozenset[str], known: frozenset[str]) -> bool:
    """Whether all words of the known name are there, but for its memory size and a form factor nobody mentioned."""
    optional = {w for w in known if _MEMORY.match(w)} | {"sxm", "sxm2", "pcie"} - {
        w for w in wanted if w in ("pcie", "nvl")
    }
    if not known - optional <= wanted:
        return False
    return (wanted & _VARIANTS) - optional == (known & _VARIANTS) - optional


def _near(a: int, b: int) -> bool:
    return max(a, b) <= _NEAR_SIZE * min(a, b)
