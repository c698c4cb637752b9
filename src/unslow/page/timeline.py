"""The timeline of a run as it is drawn: tracks with their limits, phases, reasons for low clocks, and a summary."""

from collections.abc import Iterator, Sequence

from unslow.facts.machine import Gpu, Machine
from unslow.facts.run import ReasonSeen, Timeline, TrackSeen
from unslow.facts.values import GIB, Fact, Known
from unslow.page.view import PhaseSpan, ThrottleMark, TimelineView, Track
from unslow.think.case.telemetry import POWER, THERMAL
from unslow.think.causes.gpu_power_capped import LOW_CLOCK

HOST = "host"
AVAILABLE, USED = "memory_available_bytes", "ram_used_bytes"
LABELS = {
    "clock_hz": "clock",
    "memory_clock_hz": "memory clock",
    "power_w": "power",
    "temperature_c": "temperature",
    "vram_used_bytes": "VRAM in use",
    "memory_busy": "memory controller busy",
    "pcie_receive_bytes_per_s": "PCIe receive",
    "pcie_transmit_bytes_per_s": "PCIe transmit",
    "busy_cpus": "busy CPUs",
    "own_cpus": "CPUs used by the runtime",
    "others_cpus": "CPUs used by others",
    "memory_available_bytes": "RAM available",
    "ram_used_bytes": "RAM in use",
    "disk_read_bytes_per_s": "disk reads",
}
_LIMITS = {
    "clock_hz": "clock_max_hz",
    "memory_clock_hz": "memory_clock_max_hz",
    "power_w": "power_limit_w",
    "temperature_c": "temperature_slowdown_c",
    "vram_used_bytes": "vram_total_bytes",
}
_SHARES = frozenset({"busy", "memory_busy"})
_OF_CPUS = frozenset({"busy_cpus", "own_cpus", "others_cpus"})
HELD_S = 2.5  # For so long a value stands for the moments after it: what changes slowly is read twice a second or less
_SLOWDOWN = THERMAL | POWER | {"hw_slowdown"}
"""Reasons that take clocks from a GPU that has work; the others are settings, or an idle GPU."""
_GHZ = 1e9


def timeline_view(timeline: Timeline, machine: Machine, before: str = "") -> TimelineView:
    """The same as seen, held against what the machine can do; `before` is said first."""
    # As the sampler counts them: by their index, and where two drivers count from 0, NVIDIA's before the others
    seen = machine.gpus.value_or(())
    gpus = {gpu.index: gpu for gpu in seen}
    if len(gpus) < len(seen):
        gpus = dict(enumerate(sorted(seen, key=lambda gpu: gpu.vendor.value_or("") != "NVIDIA")))
    tracks = tuple(_track(track, timeline.times_s, gpus, machine) for track in timeline.tracks)
    marks = []
    for one in timeline.reasons:
        device, harmful = device_name(one.device, gpus), _is_slowed(one, timeline, gpus.get(one.device))
        start_s, end_s = one.start_s, one.end_s
        marks.append(ThrottleMark(device=device, reason=one.reason, start_s=start_s, end_s=end_s, harmful=harmful))
    spans = tuple(PhaseSpan(phase=span.phase, start_s=span.start_s, end_s=span.end_s) for span in timeline.spans)
    said = f"{before} {timeline_summary(timeline.times_s, tracks, marks)}".strip()
    return TimelineView(times_s=timeline.times_s, tracks=tracks, spans=spans, marks=tuple(marks), summary=said)


def _track(seen: TrackSeen, times_s: Sequence[float], gpus: dict[int, Gpu], machine: Machine) -> Track:
    name, device, limit = seen.name, HOST, None
    values, total = tuple(hold_values(seen.values, times_s)), machine.memory.total_bytes
    if seen.device is not None:
        gpu, device, limit = gpus.get(seen.device), device_name(seen.device, gpus), 1.0 if name in _SHARES else None
        if gpu and name in _LIMITS:
            limit = _number(getattr(gpu, _LIMITS[name]))
    elif name == AVAILABLE and isinstance(total, Known):
        name, limit = USED, float(total.value)
        values = tuple(None if value is None else max(0.0, total.value - value) for value in values)
    elif name in _OF_CPUS:
        limit = _number(machine.cpu.logical_cpus)
    return Track(name=name, label=LABELS.get(name, name), device=device, values=values, limit=limit)


def hold_values(values: Sequence[float | None], times_s: Sequence[float]) -> Iterator[float | None]:
    """The values; where there is none, the last one for as long as it may stand for what came after it."""
    last, since = None, 0.0
    for value, time_s in zip(values, times_s, strict=True):
        if value is not None:
            last, since = value, time_s
        yield last if last is not None and time_s - since <= HELD_S else None


def device_name(number: int, gpus: dict[int, Gpu]) -> str:
    """What a GPU is called; with its number where there are several."""
    name = gpus[number].name.value_or("") if number in gpus else ""
    return (name or f"GPU {number}") if len(gpus) <= 1 else f"GPU {number}: {name}".removesuffix(": ")


def _is_slowed(reason: ReasonSeen, timeline: Timeline, gpu: Gpu | None) -> bool:
    """Whether clocks were low meanwhile: a power cap at full clocks costs nothing; unknown clocks count for heat."""
    if reason.reason not in _SLOWDOWN:
        return False
    most = _number(gpu.clock_max_hz) if gpu else None
    track = next((t for t in timeline.tracks if t.name == "clock_hz" and t.device == reason.device), None)
    pairs = zip(timeline.times_s, track.values, strict=True) if track else ()
    beside_s = timeline.times_s[0] if timeline.times_s else 0.0  # half of what a column stands for
    start_s, end_s = reason.start_s - beside_s, reason.end_s + beside_s
    clocks = [v for time_s, v in pairs if v is not None and start_s <= time_s <= end_s]
    if most is None or not clocks:
        return reason.reason in THERMAL
    return sum(clocks) / len(clocks) <= LOW_CLOCK * most


def _number(fact: Fact[float] | Fact[int]) -> float | None:
    return float(fact.value) if isinstance(fact, Known) and fact.value else None


def timeline_summary(times_s: Sequence[float], tracks: Sequence[Track], marks: Sequence[ThrottleMark]) -> str:
    """How long it was watched, what each device reached at most, and whether anything held a GPU's clocks back."""
    parts = [f"Sampled for {times_s[-1] if times_s else 0.0:,.0f} s."]
    for device in dict.fromkeys(track.device for track in tracks):
        parts += _device(device, tracks)
    harmful = [mark for mark in marks if mark.harmful]
    if harmful:
        reasons = ", ".join(dict.fromkeys(mark.reason.replace("_", " ") for mark in harmful))
        lasted_s = until_s = 0.0
        for mark in sorted(harmful, key=lambda one: one.start_s):  # two reasons at once, or two GPUs, are no more time
            lasted_s += max(0.0, mark.end_s - max(until_s, mark.start_s))
            until_s = max(until_s, mark.end_s)
        shown = f"{lasted_s:.2g}" if lasted_s < 10 else f"{lasted_s:,.0f}"  # noqa: PLR2004 (two figures tell a short one)
        parts.append(f"Clocks throttled for {shown} s: {reasons}.")
    elif any(track.name == "clock_hz" for track in tracks):
        parts.append("No throttling.")
    return " ".join(parts)


def _device(device: str, tracks: Sequence[Track]) -> Iterator[str]:
    own = {track.name: track for track in tracks if track.device == device}
    peak = {name: max((v for v in track.values if v is not None), default=0.0) for name, track in own.items()}
    of_limit = {name: f" of {track.limit:.0f}" if track.limit else "" for name, track in own.items()}
    if device == HOST:
        if "own_cpus" in own:
            yield f"The runtime used up to {peak['own_cpus']:.1f}{of_limit['own_cpus']} CPUs."
        return
    found = []
    if "clock_hz" in own:
        found.append(f"{peak['clock_hz'] / _GHZ:.2f} GHz")
    if "power_w" in own:
        found.append(f"{peak['power_w']:.0f} W{of_limit['power_w']}")
    if "temperature_c" in own:
        found.append(f"{peak['temperature_c']:.0f} °C")
    if "vram_used_bytes" in own:
        found.append(f"{peak['vram_used_bytes'] / GIB:.1f} GiB of VRAM")
    if found:
        yield f"{device} peaked at {', '.join(found)}."
