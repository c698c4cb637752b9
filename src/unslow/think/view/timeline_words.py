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
    """How long it was watched, what each device reached at most, and whether anything held a GPU back."""
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
        seconds = sum(mark.end_s - mark.start_s for mark in harmful)
        yield f"Held back for {seconds:.0f} s: {reasons}."
    elif any(track.name == "clock_hz" for track in tracks):
        yield "Nothing held it back."
