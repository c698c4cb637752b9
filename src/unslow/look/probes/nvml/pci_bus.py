"""Signs of an NVIDIA GPU that no driver speaks for: the PCI bus and the kernel module."""

import re
from collections.abc import Iterator
from typing import Any

from unslow.facts.machine import Gpu
from unslow.facts.values import Absence, Fact, Unknown, failed, not_found, reported
from unslow.look.logs.nvidia_gpu import gpu_without_facts
from unslow.look.system import LookError, System, unknown
from unslow.look.system.door import read_text

DEVICES = "/sys/bus/pci/devices"
MODULE_VERSION = "/proc/driver/nvidia/version"
_VENDOR = "0x10de"
_DISPLAY = "0x03"  # PCI base class 03: VGA and 3D controllers
_MOST_DEVICES = 4096
_VERSION = re.compile(r"\b(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)\b")


def read_signs(system: System, why_no_driver: str) -> Fact[tuple[Gpu, ...]]:
    """The GPUs on the bus with the reason why they can't be asked; an empty list only where there is surely none."""
    try:
        version = _module_version(system)
        addresses = list(_display_devices(system))
    except LookError as error:
        return unknown(error)
    if not addresses and version:
        return failed(f"driver {version} is loaded, but {why_no_driver}", "run `nvidia-smi`")
    gpus = (_silent_gpu(system, index, address, version, why_no_driver) for index, address in enumerate(addresses))
    return reported(tuple(gpus), DEVICES)


def parse_module_version(text: str) -> str:
    """The version in /proc/driver/nvidia/version; empty where it has none."""
    match = _VERSION.search(text)
    return match[1] if match else ""


def _module_version(system: System) -> str:
    """The version of the loaded kernel module, or nothing where none is loaded."""
    try:
        return parse_module_version(read_text(system, MODULE_VERSION)) or "of unknown version"
    except LookError as error:
        if error.absence is Absence.NOT_FOUND:
            return ""
        raise


def _display_devices(system: System) -> Iterator[str]:
    try:
        addresses = system.list_dir(DEVICES)[:_MOST_DEVICES]
    except LookError as error:
        if error.absence is Absence.NOT_FOUND:
            return
        raise
    for address in addresses:
        if _id(system, address, "vendor") == _VENDOR and _id(system, address, "class").startswith(_DISPLAY):
            yield address


def _id(system: System, address: str, name: str) -> str:
    try:
        return read_text(system, f"{DEVICES}/{address}/{name}").strip().lower()
    except LookError:
        return ""


def _silent_gpu(system: System, index: int, address: str, version: str, why_no_driver: str) -> Gpu:
    known: dict[str, Fact[Any]] = {"vendor": reported("NVIDIA", DEVICES), "bus_id": reported(address, DEVICES)}
    if version:
        why = failed(f"driver {version} is loaded, but {why_no_driver}", "run `nvidia-smi`")
        return gpu_without_facts(index, why, **known, driver=reported(version, MODULE_VERSION))
    return gpu_without_facts(index, _driver_not_loaded(system, address), **known)


def _driver_not_loaded(system: System, address: str) -> Unknown:
    try:
        holder = system.read_link(f"{DEVICES}/{address}/driver").rpartition("/")[2]
    except LookError:
        holder = ""
    why = f"driver not loaded: {holder} holds the device" if holder else "driver not loaded"
    return not_found(why, "install NVIDIA's driver and restart")
