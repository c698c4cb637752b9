"""AMD GPUs through the files of the amdgpu driver; its firmware answers, so a file may take its time."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from math import nan

from unslow.look.kernel.drm_cards import Card, read_cards
from unslow.look.kernel.hwmon import MICRO, MILLI, Sensors, read_sensors
from unslow.look.kernel.pcie_link import parse_generation
from unslow.look.probes.amdgpu_sysfs import AMD
from unslow.look.probes.amdgpu_sysfs.kfd import read_nodes
from unslow.look.sampler.reading import SELDOM_S, Device, Reading
from unslow.look.system import Live, LookError

DRIVER = True
_LIMIT_BYTES = 512
_PERCENT = 0.01
_FILES: tuple[tuple[str, str, float, float], ...] = (
    ("busy", "gpu_busy_percent", _PERCENT, 0.0),
    ("memory_busy", "mem_busy_percent", _PERCENT, 0.0),
    ("vram_used_bytes", "mem_info_vram_used", 1, 0.0),
    ("gtt_used_bytes", "mem_info_gtt_used", 1, SELDOM_S),
    ("pcie_width", "current_link_width", 1, SELDOM_S),
)
"""Column, file of the device, what one of it is worth, and seconds between two looks."""


def open_readings(live: Live, _pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """The readings of every card, in ROCm's order as everywhere; LookError where there is none."""
    order = {bus_id: place for place, bus_id in enumerate(read_nodes(live))}
    cards = sorted(read_cards(live, AMD), key=lambda card: order.get(card.bus_id, len(order)))
    if not cards:
        raise LookError("no AMD GPU is there")
    return [r for index, card in enumerate(cards) for r in _readings(live, Device(index, card.bus_id), card, closing)]


def _readings(live: Live, device: Device, card: Card, closing: ExitStack) -> Iterator[Reading]:
    sensors = read_sensors(live, card.device)
    paths = [(column, f"{card.device}/{file}", scale, every) for column, file, scale, every in _FILES]
    for column, path, scale, every_s in (*paths, *_sensor_paths(sensors)):
        with suppress(LookError):
            yield _reading(live, device, (column, path, every_s), closing, _scaled(scale))
    with suppress(LookError):
        speed = ("pcie_generation", f"{card.device}/current_link_speed", SELDOM_S)
        yield _reading(live, device, speed, closing, _generation)


def _sensor_paths(sensors: Sensors) -> Iterator[tuple[str, str, float, float]]:
    """Those that the card has; newer ones show the power of the moment in place of an average."""
    power = "power1_average" if sensors.has("power1_average") else "power1_input"
    yield "power_w", f"{sensors.path}/{power}", MICRO, 0.0
    wanted = (("clock_hz", "sclk", 1.0, 0.0), ("memory_clock_hz", "mclk", 1.0, SELDOM_S),
              ("temperature_c", "edge", MILLI, SELDOM_S), ("memory_temperature_c", "mem", MILLI, SELDOM_S))  # fmt: skip
    for column, label, scale, every_s in wanted:
        if label in sensors.labels:
            yield column, f"{sensors.path}/{sensors.labels[label]}_input", scale, every_s


def _reading(
    live: Live, device: Device, what: tuple[str, str, float], closing: ExitStack, parse: Callable[[bytes], float]
) -> Reading:
    column, path, every_s = what
    file = live.follow(path, _LIMIT_BYTES)
    closing.callback(file.close)

    def read(_now: float) -> Sequence[float]:
        text = file()
        try:
            return (parse(text),)
        except ValueError as error:
            raise LookError(f"{path}: {text[:40]!r} is not a number") from error

    return Reading(f"gpu{device.number} {column}", (column,), read, device, every_s)


def _scaled(scale: float) -> Callable[[bytes], float]:
    return lambda text: int(text) * scale


def _generation(text: bytes) -> float:
    return float(parse_generation(text.decode("ascii", "replace"), "").value_or(nan))
