"""What is different about an odd instance, in one sentence with the units that people use."""

import re
from collections.abc import Sequence

from unslow.facts.units import GIB
from unslow.think.fleet.report import Difference
from unslow.think.report import Scalar

SHARES = ("_rate", "_usage", "_used", "_fraction", "_pressure", "_share", "_busy", "_acceptance")
"""How names of shares of one end."""
ALL = 0.995
"""Of the peers: from there on it is all of them."""
_UNITS = (
    ("_bytes_per_s", 1e9, "GB/s"), ("_bytes", GIB, "GiB"), ("_hz", 1e6, "MHz"), ("_w", 1.0, "W"), ("_c", 1.0, "°C"),
    ("_s", 1.0, "s"),
)  # fmt: skip
_NUMBERED = re.compile(r"\.gpus\.(\d+)\.")
_NAMES = {
    "runtime.version": "version", "machine.gpus.driver": "GPU driver", "machine.cpu.model": "CPU",
    "machine.load.busy_cpus": "busy CPUs of the host", "machine.load.average_1min": "load of the host",
    "machine.memory.total_bytes": "RAM", "machine.memory.available_bytes": "free RAM",
    "machine.memory.swap_used_bytes": "swap in use", "run.traffic.cache_used": "KV cache in use",
    "run.traffic.preemptions": "preemptions", "runtime.context_length": "context, in tokens",
    "run.gpus.event_reasons": "clocks held down by", "machine.gpus.event_reasons": "clocks held down by",
    "run.logged_prompts": "tokens of a prompt", "run.depth_tokens": "tokens in the context",
    "run.gpus.temperature_max_c": "highest temperature", "machine.gpus.clock_hz": "clock of the GPU",
    "run.gpus.clock_hz": "clock of the GPU", "runtime.eager": "graphs switched off:",
    "runtime.kv_type_k": "type of the KV cache",
}  # fmt: skip


_REASONS = {
    "sw_power_cap": "a power limit", "hw_power_brake_slowdown": "a power brake", "sw_thermal_slowdown": "heat",
    "hw_thermal_slowdown": "heat", "hw_slowdown": "the hardware",
}  # fmt: skip


def summary_of(reached: float, peers: int, found: Sequence[Difference]) -> str:
    """How fast it is among its peers, and the fact that tells most; plainly so where no known fact differs."""
    pace = f"{reached:.0%} of its peers' speed at the same load"
    if not found:
        return f"{pace}; no fact that is known of it and its {peers:,} peers differs"
    first, *others = found
    named = [f"{fact_words(one.fact)} {value_words(one.fact, one.value)}" for one in others]
    also = f"; also {_listed(named)}" if named else ""
    return f"{pace}: {difference_words(first, peers)}{also}"


def difference_words(difference: Difference, peers: int) -> str:
    """A fact, its value here and that of the peers."""
    own, theirs = (value_words(difference.fact, value) for value in (difference.value, difference.peers))
    if own == theirs:  # too close to tell apart in the usual digits
        own, theirs = str(difference.value), str(difference.peers)
    who = f"its {peers:,} peers" if difference.share >= ALL else f"{difference.share:.0%} of its {peers:,} peers"
    return f"{fact_words(difference.fact)} {own}, {who} have {theirs}"


def fact_words(path: str) -> str:
    """A fact as a person calls it; which GPU it is of where that is not the first."""
    number = _NUMBERED.search(path)
    plain = _NUMBERED.sub(".gpus.", path)
    which = f" of GPU {number[1]}" if number and number[1] != "0" else ""
    return f"{_NAMES.get(plain) or _words(plain.rpartition('.')[2])}{which}"


def _words(name: str) -> str:
    for ending, _, _ in _UNITS:
        name = name.removesuffix(ending)
    return name.replace("vram", "GPU memory").replace("pcie", "PCIe").replace("_", " ").replace("kv ", "KV ")


def value_words(path: str, value: Scalar) -> str:
    """A value in the unit that its name carries."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return _reasons(value) if path.endswith(".event_reasons") else value or "none"
    if path.endswith(SHARES) and 0 <= value <= 1:
        return f"{value:.0%}"
    for ending, size, unit in _UNITS:
        if path.endswith(ending):
            return f"{_number(value / size)} {unit}"
    return _number(value)


def _reasons(value: str) -> str:
    """What holds clocks down, in words; those that have none keep their name."""
    return " and ".join(dict.fromkeys(_REASONS.get(reason, reason) for reason in value.split(", ")))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"  # noqa: PLR2004 (three digits)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
