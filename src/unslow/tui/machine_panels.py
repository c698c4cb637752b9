"""The panels of the machine: devices, memory, host; and the list of servers."""

from rich.text import Text

from unslow.show._units import GIB, size
from unslow.think.view.live import DeviceNow, HostNow, Tick
from unslow.think.view.report import MemoryBar
from unslow.tui.glyphs import Glyphs, stacked
from unslow.tui.rows import Row, room, styled, wrapped

DEVICES, MEMORY, HOST, SERVERS = "Devices", "Memory", "Host", "Servers"
_STYLES = {
    "weights": "blue", "kv": "cyan", "compute": "magenta", "stranger": "yellow", "reserve": "dim", "free": "dim",
    "lacking": "bold red",
}  # fmt: skip
_GHZ, _MB = 1e9, 1e6
_SMALL_SHARE = 0.002
"""Of a memory: a part that is smaller has no words of its own."""


def device_rows(tick: Tick, width: int, glyphs: Glyphs) -> list[Row]:
    """A row for each GPU, and one more where the driver holds it back."""
    rows: list[Row] = []
    for device in tick.devices:
        first, *more = wrapped(device_words(device, glyphs), room(width), 2)
        rows.append(Row(DEVICES, styled(first), 1 if not rows else 3))
        rows += [Row(DEVICES, styled(line), 3) for line in more]
        if device.reasons:
            words = ", ".join(reason.replace("_", " ") for reason in device.reasons)
            rows.append(Row(DEVICES, styled((f"held back by: {words}", "bold yellow")), 2))
    return rows or [Row(DEVICES, styled(("no GPU is seen here", "dim")), 11)]


def device_words(device: DeviceNow, glyphs: Glyphs) -> str:
    """One GPU in words; what the driver does not tell is left out."""
    pieces = []
    if device.busy is not None:
        pieces.append(f"busy {device.busy:.0%}")
    if device.clock_hz:
        pieces.append(f"{device.clock_hz / _GHZ:.2f} GHz")
    if device.power_w is not None:
        limit = f" of {device.power_limit_w:.0f}" if device.power_limit_w else ""
        pieces.append(f"{device.power_w:.0f}{limit} W")
    if device.temperature_c is not None:
        pieces.append(f"{device.temperature_c:.0f} {glyphs.degrees}")
    if device.vram_used_bytes is not None:
        total = f" of {device.vram_total_bytes / GIB:.1f}" if device.vram_total_bytes else ""
        pieces.append(f"VRAM {device.vram_used_bytes / GIB:.1f}{total} GiB")
    return f"{device.name}: {', '.join(pieces) or 'the driver tells nothing'}"


def memory_rows(tick: Tick, width: int, glyphs: Glyphs) -> list[Row]:
    """For each memory what is in it, and a bar."""
    rows: list[Row] = []
    for bar in tick.memory:
        first, *more = wrapped(memory_words(bar), room(width), 3)
        rows.append(Row(MEMORY, styled(first), 2 if not rows else 4))
        rows += [Row(MEMORY, styled(line), 5) for line in more]
        rows.append(Row(MEMORY, _bar(bar, min(60, room(width)), glyphs), 8))
    return rows


def memory_words(bar: MemoryBar) -> str:
    """The parts of a memory that are worth a word."""
    total = bar.capacity_bytes or 1
    parts = [p for p in bar.parts if p.bytes >= _SMALL_SHARE * total or p.kind in ("weights", "free")]
    named = ", ".join(f"{part.name} {size(part.bytes)}" for part in parts)
    return f"{bar.name} {size(total)}: {named}"


def _bar(bar: MemoryBar, width: int, glyphs: Glyphs) -> Text:
    text = Text(no_wrap=True, end="")
    for kind, stretch in stacked([(part.kind, part.bytes) for part in bar.parts], width, glyphs):
        text.append(stretch, style=_STYLES[kind])
    return text


def host_rows(tick: Tick) -> list[Row]:
    """The processors, then memory, swap and disks."""
    host = tick.host
    rows = [Row(HOST, styled(cpu_words(host)), 1)] if host.busy_cpus is not None else []
    if host.throttled:
        rows.append(Row(HOST, styled((f"its CPU quota runs out {host.throttled:.0%} of the time", "bold yellow")), 2))
    if words := io_words(host):
        swaps = (host.swap_in_bytes_per_s or 0) > _MB
        rows.append(Row(HOST, styled((words, "bold yellow" if swaps else "")), 5))
    return rows


def cpu_words(host: HostNow) -> str:
    """Who uses the processors."""
    if host.busy_cpus is None:
        return ""
    who = []
    if host.own_cpus is not None:
        who.append(f"server {host.own_cpus:.1f}")
    if host.others_cpus is not None:
        who.append(f"others {host.others_cpus:.1f}")
    of = f" of {host.cpus}" if host.cpus else ""
    return f"{host.busy_cpus:.1f}{of} CPUs busy" + (f" ({', '.join(who)})" if who else "")


def io_words(host: HostNow) -> str:
    """Memory that is left, swapping and reading."""
    pieces = []
    if host.ram_available_bytes is not None:
        pieces.append(f"RAM {size(host.ram_available_bytes)} available")
    if host.swap_in_bytes_per_s is not None:
        back, out = host.swap_in_bytes_per_s / _MB, (host.swap_out_bytes_per_s or 0) / _MB
        pieces.append(f"swap in {back:.0f}, out {out:.0f} MB/s" if back + out >= 1 else "no swapping")
    if host.disk_read_bytes_per_s is not None:
        pieces.append(f"disk reads {host.disk_read_bytes_per_s / _MB:.0f} MB/s")
    return ", ".join(pieces)


def server_rows(tick: Tick, glyphs: Glyphs) -> list[Row]:
    """All servers, where there are several."""
    if len(tick.servers) < 2:  # noqa: PLR2004 (one needs no list)
        return []
    rows = []
    for at, name in enumerate(tick.servers):
        mark = glyphs.chosen if at == tick.chosen else " "
        rank = 3 if abs(at - tick.chosen) <= 1 else 12
        rows.append(Row(SERVERS, styled((f"{mark} {name}", "bold" if at == tick.chosen else "")), rank))
    return rows
