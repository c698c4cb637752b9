"""Knobs of the machine, which are turned in the same way whatever runs on it."""

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.units import MIB

_SMALLEST_BYTES = 2**24  # a number below is one of MiB already


_NO_FALLBACK = "NVIDIA Control Panel, Manage 3D settings: CUDA - Sysmem Fallback Policy = Prefer No Sysmem Fallback"


def spell_machine(change: Change) -> list[str]:
    """What to type or click; empty for a knob of the runtime, and where the value is not known."""
    match change.knob, change.value:
        case Knob.OTHER_LOAD, int(pid):
            return [f"renice -n 19 -p {pid}"]
        case Knob.CPU_QUOTA, int(cpus) | float(cpus):
            return [f"docker update --cpus {cpus:g} CONTAINER", f"systemctl set-property UNIT CPUQuota={cpus:.0%}"]
        case Knob.WIRED_LIMIT, int(size):
            return [f"sudo sysctl iogpu.wired_limit_mb={_mebibytes(size)}"]
        case Knob.DRIVER_FALLBACK, _:
            return [labelled(Place.HAND, _NO_FALLBACK)]
        case Knob.POWER, _:
            return _power(change.value)
        case _:
            return []


def _power(value: Setting) -> list[str]:
    """A governor by its name, or a limit in watts."""
    if isinstance(value, str):
        return [f"sudo cpupower frequency-set -g {value}"]
    return [f"sudo nvidia-smi -pl {value:g}"] if value else []


def _mebibytes(size: Setting) -> int:
    number = int(size or 0)
    return number // MIB if number >= _SMALLEST_BYTES else number
