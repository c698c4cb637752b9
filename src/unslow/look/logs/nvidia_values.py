"""Values as nvidia-smi prints them: a number with its unit, or one of its ways to say that there is none."""

import re
from typing import Any, Final

from unslow.facts.units import GIB, KB, KIB, MB, MHZ, MIB
from unslow.facts.values import Fact, Unknown, failed, not_supported, reported

_LONGEST_LINE = 4096
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NUMBER = re.compile(r"(-?\d{1,18}(?:\.\d{1,9})?)\s*([A-Za-z%]+(?:/s)?)?")
_BUS_ID = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-9A-Fa-f])\b")

UNITS: Final[dict[str, float]] = {
    "": 1, "%": 0.01, "C": 1, "W": 1, "x": 1, "MHz": MHZ, "KiB": KIB, "MiB": MIB, "GiB": GIB, "KB/s": KB, "MB/s": MB,
}  # fmt: skip

_NOT_SUPPORTED = (
    "n/a", "-", "not supported", "function not found", "requested functionality has been deprecated",
    "not available in wddm driver model", "deprecated",
)  # fmt: skip
_FAILED = ("insufficient permissions", "unknown error", "gpu is lost", "gpu requires reset", "err!", "unknown")


def plain_lines(text: str) -> list[str]:
    """The lines without colours and carriage returns; none is so long that it could keep a parser busy."""
    return [line[:_LONGEST_LINE].rstrip() for line in _ANSI.sub("", text).splitlines()]


def absence(text: str, source: str) -> Unknown | None:
    """Why there is no value, where the text says so in one of nvidia-smi's ways."""
    words = text.strip().strip("[]").strip()
    if words.casefold() in _NOT_SUPPORTED:
        return not_supported(f'{source} says "{words}"')
    if words.casefold() in _FAILED or not words:
        return failed(f'{source} says "{words}"')
    return None


def quantity(text: str, unit: str, source: str) -> Fact[Any]:
    """The number in SI; `unit` is what it is in where the text has none."""
    missing = absence(text, source)
    if missing:
        return missing
    match = _NUMBER.search(text)
    if not match:
        return failed(f'{source} says "{text.strip()[:40]}", which is no number')
    scale = UNITS.get(match[2] or unit, UNITS[unit])
    value = round(float(match[1]) * scale, 6)
    return reported(int(value) if value.is_integer() else value, source)


def process_id(text: str) -> int | None:
    """The number of a process, or None where the text is something else."""
    return int(text) if re.fullmatch(r"[0-9]{1,10}", text) else None


def word(text: str, source: str) -> Fact[Any]:
    """The text itself."""
    return absence(text, source) or reported(text.strip(), source)


def enabled(text: str, source: str) -> Fact[Any]:
    """Whether the text says that something is on."""
    missing = absence(text, source)
    if missing:
        return missing
    state = {"enabled": True, "on": True, "disabled": False, "off": False}.get(text.strip().casefold())
    return failed(f'{source} says "{text.strip()[:40]}"') if state is None else reported(state, source)


def bus_id(text: str, source: str) -> Fact[Any]:
    """A PCI address in the spelling of /sys/bus/pci/devices; NVIDIA writes the domain with eight digits."""
    match = _BUS_ID.search(text)
    if not match:
        return absence(text, source) or failed(f'{source} says "{text.strip()[:40]}", which is no PCI address')
    domain, bus, device, function = match.groups()
    return reported(f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower(), source)
