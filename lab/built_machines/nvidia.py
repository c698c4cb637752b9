"""NVIDIA GPUs in a built world, as NVML answers for them."""

from typing import Any, NamedTuple

from unslow.facts.values import MIB

IDLE, POWER_CAP, SW_THERMAL, HW_THERMAL = 0x1, 0x4, 0x20, 0x40
"""Bits of nvmlClocksEventReasons: GpuIdle, SwPowerCap, SwThermalSlowdown, HwThermalSlowdown."""
NO_NVLINK = {"error": "NVMLError_NotSupported: Not Supported"}


class Card(NamedTuple):
    """One GPU: what it is by its data sheet, and what it does while somebody looks."""

    name: str = "NVIDIA GeForce RTX 4090"
    capability: tuple[int, int] = (8, 9)
    total_mib: int = 24564
    bus_bits: int = 384
    max_mhz: int = 3105
    memory_mhz: int = 10501
    limit_w: float = 450
    default_w: float = 450
    used_mib: int = 0
    """By the runtime."""
    others: tuple[tuple[int, str, int], ...] = ()
    """Other processes: id, name, MiB."""
    busy: int = 95
    mhz: int = 2700
    memory_mhz_now: int = 0
    """0 for the highest."""
    state: int = 2
    celsius: int = 62
    slowdown_c: int = 90
    watts: float = 300
    reasons: int = 0
    generation: int = 4
    generation_max: int = 4
    width: int = 16
    width_max: int = 16
    nvlinks: int | None = None


def nvml(pid: int, program: str, *cards: Card) -> dict[str, Any]:
    """What NVML answers about the cards, on which one process runs the model."""
    names = {str(pid): program} | {str(other): name for card in cards for other, name, _ in card.others}
    return {
        "driver": "580.95.05",
        "gpus": [_gpu(number, card, pid) for number, card in enumerate(cards)],
        "process_names": names,
    }


def _gpu(number: int, card: Card, pid: int) -> dict[str, Any]:
    reserved = 400
    used = card.used_mib + sum(mib for _, _, mib in card.others)
    held = [(pid, card.used_mib)] if card.used_mib else []
    held += [(other, mib) for other, _, mib in card.others]
    return {
        "name": card.name,
        "bus_id": f"00000000:{number + 1:02X}:00.0",
        "compute_capability": list(card.capability),
        "memory_bytes": {
            "total": card.total_mib * MIB,
            "reserved": reserved * MIB,
            "free": (card.total_mib - reserved - used) * MIB,
            "used": used * MIB,
        },
        "memory_bus_bits": card.bus_bits,
        "utilisation_percent": {"gpu": card.busy, "memory": card.busy // 2},
        "sm_clock_mhz": card.mhz,
        "sm_clock_max_mhz": card.max_mhz,
        "memory_clock_mhz": card.memory_mhz_now or card.memory_mhz,
        "memory_clock_max_mhz": card.memory_mhz,
        "performance_state": card.state,
        "temperature_c": card.celsius,
        "temperature_slowdown_c": card.slowdown_c,
        "temperature_shutdown_c": card.slowdown_c + 5,
        "power_mw": round(card.watts * 1000),
        "power_limit_mw": round(card.limit_w * 1000),
        "power_limit_default_mw": round(card.default_w * 1000),
        "event_reason_bits": card.reasons,
        "pcie_generation": card.generation,
        "pcie_generation_max": card.generation_max,
        "pcie_width": card.width,
        "pcie_width_max": card.width_max,
        "nvlinks_active": NO_NVLINK if card.nvlinks is None else card.nvlinks,
        "mig_mode": [0, 0],
        "compute_processes": [{"pid": who, "used_bytes": mib * MIB} for who, mib in held],
        "graphics_processes": [],
    }
