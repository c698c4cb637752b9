"""Why the clocks are what they are: NVIDIA's event reasons, as bits and as names."""

from collections.abc import Iterable, Iterator

# nvmlClocksEventReason* of nvml.h, which older drivers call nvmlClocksThrottleReason*; the names are those of the
# columns `clocks_event_reasons.<name>` of `nvidia-smi --query-gpu`.
REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
_BITS = {name: bit for bit, name in REASONS.items()}
_WIDTH_BITS = 64
_UNKNOWN = "unknown_bit_"


def reason_names(bits: int) -> list[str]:
    """The reasons that are set, lowest bit first; a bit without a name is kept as `unknown_bit_0x…`."""
    return [REASONS.get(bit, f"{_UNKNOWN}{bit:#x}") for bit in _set_bits(bits)]


def reason_bits(names: Iterable[str]) -> int | None:
    """The bits of the reasons; None where one of them has no known bit."""
    bits = 0
    for name in names:
        bit = _BITS.get(name) or _unknown_bit(name)
        if bit is None:
            return None
        bits |= bit
    return bits


def reason_name(label: str) -> str:
    """The name of a reason by its label in `nvidia-smi -q`, such as "SW Power Cap"."""
    words = "_".join(label.casefold().split())
    return "gpu_idle" if words == "idle" else words


def _set_bits(bits: int) -> Iterator[int]:
    return (1 << place for place in range(_WIDTH_BITS) if bits >> place & 1)


def _unknown_bit(name: str) -> int | None:
    digits = name.removeprefix(_UNKNOWN)
    try:
        return int(digits, 16) if digits != name else None
    except ValueError:
        return None
