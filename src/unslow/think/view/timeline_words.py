"""What a timeline shows, in words."""

from collections.abc import Iterator, Sequence

from unslow.facts.units import GIB
from unslow.think.view.report import ThrottleMark, Track

HOST = "host"
LABELS = {
    "clock_hz": "clock",
    "memory_clock_hz": "memory clock",
    "power_w": "power",
    "temperature_c": "temperature",
    "vram_used_bytes": "memory in use",
    "busy": "busy",
    "memory_busy": "memory busy",
    "pcie_receive_bytes_per_s": "received over PCIe",
    "pcie_transmit_bytes_per_s": "sent over PCIe",
    "busy_cpus": "processors busy",
    "own_cpus": "processors of the runtime",
    "others_cpus": "processors of others",
    "memory_available_bytes": "RAM available",
    "ram_used_bytes": "RAM in use",
    "disk_read_bytes_per_s": "read from disks",
}
_GHZ = 1e9


def summary_of(times_s: Sequence[float], tracks: Sequence[Track], marks: Sequence[ThrottleMark]) -> str:
    """How long it was watched, what each device reached at most, and whether anything held a GPU's clocks back."""
    seconds = times_s[-1] if times_s else 0.0
    parts = [text for device in dict.fromkeys(track.device for track in tracks) for text in _device(device, tracks)]
    watched = f"Watched for {seconds:,.0f} s."
    return " ".join([watched, *parts, *_held_back(marks, tracks)])


def _device(device: str, tracks: Sequence[Track]) -> Iterator[str]:
    own = {track.name: track for track in tracks if track.device == device}
    if device == HOST:
        if "own_cpus" in own:
            yield f"The runtime used up to {_most(own['own_cpus']):.1f} processors{_of(own['own_cpus'])}."
        return
    found = []
    if "clock_hz" in own:
        found.append(f"{_most(own['clock_hz']) / _GHZ:.2f} GHz")
    if "power_w" in own:
        found.append(f"{_most(own['power_w']):.0f} W{_of(own['power_w'])}")
    if "temperature_c" in own:
        found.append(f"{_most(own['temperature_c']):.0f} °C")
    if "vram_used_bytes" in own:
        found.append(f"{_most(own['vram_used_bytes']) / GIB:.1f} GiB of memory")
    if found:
        yield f"{device} reached {', '.join(found)}."


def _most(track: Track) -> float:
    return max((value for value in track.values if value is not None), default=0.0)


def _of(track: Track) -> str:
    return f" of {track.limit:.0f}" if track.limit else ""


def _held_back(marks: Sequence[ThrottleMark], tracks: Sequence[Track]) -> Iterator[str]:
    harmful = [mark for mark in marks if mark.harmful]
    if harmful:
        reasons = ", ".join(dict.fromkeys(mark.reason.replace("_", " ") for mark in harmful))
        yield f"Clocks held back for {_seconds(_lasted(harmful))} s: {reasons}."
    elif any(track.name == "clock_hz" for track in tracks):
        yield "Nothing held its clocks back."


def _lasted(marks: Sequence[ThrottleMark]) -> float:
    """How long there was any of them: two reasons at once, or two GPUs, are no more time."""
    seconds, until_s = 0.0, 0.0
    for mark in sorted(marks, key=lambda one: one.start_s):
        seconds += max(0.0, mark.end_s - max(until_s, mark.start_s))
        until_s = max(until_s, mark.end_s)
    return seconds


def _seconds(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"  # noqa: PLR2004 (two figures tell a short one)
