"""AMD and Intel GPUs through the files of their drivers; firmware answers, so a file may take its time."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from math import nan

from unslow.facts.values import MHZ
from unslow.look.kernel import MICRO, MILLI, read_sensors
from unslow.look.kernel.gpus import Card, parse_generation, read_cards
from unslow.look.probes.amdgpu_sysfs import AMD, read_kfd_nodes
from unslow.look.probes.intel_gpu_sysfs import BUILT_IN, CLOCKS, INTEL, REASONS
from unslow.look.sampler.readings import REASON_BITS, SELDOM_S, Device, Rate, Reading
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
_SENSORS: tuple[tuple[str, str, float, float], ...] = (
    ("clock_hz", "sclk", 1.0, 0.0),
    ("memory_clock_hz", "mclk", 1.0, SELDOM_S),
    ("temperature_c", "edge", MILLI, SELDOM_S),
    ("memory_temperature_c", "mem", MILLI, SELDOM_S),
)
"""The same by the label of a sensor."""
_MOST_REASONS = 24  # as many bits as a number of single precision holds


def open_amdgpu(live: Live, _pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """The readings of every card, in ROCm's order as everywhere; LookError where there is none."""
    order = {bus_id: place for place, bus_id in enumerate(read_kfd_nodes(live))}
    cards = sorted(read_cards(live, AMD), key=lambda card: order.get(card.bus_id, len(order)))
    if not cards:
        raise LookError("there is no AMD GPU")
    return [r for index, card in enumerate(cards) for r in _readings(live, Device(index, card.bus_id), card, closing)]


def _readings(live: Live, device: Device, card: Card, closing: ExitStack) -> Iterator[Reading]:
    sensors = read_sensors(live, card.device)
    paths = [(column, f"{card.device}/{file}", scale, every) for column, file, scale, every in _FILES]
    power = "power1_average" if sensors.has("power1_average") else "power1_input"  # newer cards: of the moment
    paths.append(("power_w", f"{sensors.path}/{power}", MICRO, 0.0))
    for column, label, scale, every_s in _SENSORS:
        if label in sensors.labels:
            paths.append((column, f"{sensors.path}/{sensors.labels[label]}_input", scale, every_s))
    for column, path, scale, every_s in paths:
        with suppress(LookError):
            yield device.reading(column, _times(_open_number(live, path, closing), scale), every_s)
    with suppress(LookError):
        parse = lambda text: float(parse_generation(text.decode("ascii", "replace"), "").value_or(nan))  # noqa: E731
        generation = _open_number(live, f"{card.device}/current_link_speed", closing, parse)
        yield device.reading("pcie_generation", _times(generation, 1), SELDOM_S)


def open_intel_gpu(live: Live, _pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """The readings of every GPU, cards before what is built in; LookError where there is none."""
    cards = sorted(read_cards(live, INTEL), key=lambda card: card.bus_id == BUILT_IN)
    if not cards:
        raise LookError("there is no Intel GPU")
    return [reading for index, card in enumerate(cards) for reading in _intel_readings(live, index, card, closing)]


def _intel_readings(live: Live, index: int, card: Card, closing: ExitStack) -> Iterator[Reading]:
    names, files = _open_reasons(live, card, closing)
    device = Device(index, card.bus_id, lambda bits: [name for at, name in enumerate(names) if bits >> at & 1])
    sensors = read_sensors(live, card.device)
    for path in (f"{card.path}/{file}" for file in CLOCKS):
        with suppress(LookError):
            yield device.reading("clock_hz", _times(_open_number(live, path, closing), MHZ))
            break
    # Energy is counted, so power is its growth; temperature by the package's sensor, else by the first
    energy = next((name for name in ("energy1_input", "energy2_input") if sensors.has(name)), "")
    warm = f"{sensors.labels['pkg']}_input" if "pkg" in sensors.labels else "temp1_input"
    with suppress(LookError):
        joules, rate = _open_number(live, f"{sensors.path}/{energy}", closing), Rate()
        yield device.reading("power_w", lambda now: (rate(joules() * MICRO, now),))
    with suppress(LookError):
        degrees = _open_number(live, f"{sensors.path}/{warm}", closing)
        yield device.reading("temperature_c", _times(degrees, MILLI), SELDOM_S)
    if files:
        bits = lambda _now: (float(sum((file() == 1) << at for at, file in enumerate(files))),)  # noqa: E731 (short)
        yield device.reading(REASON_BITS, bits, SELDOM_S)


def _open_reasons(live: Live, card: Card, closing: ExitStack) -> tuple[list[str], list[Callable[[], float]]]:
    for folder, prefix in ((f"{card.path}/{folder}", prefix) for folder, prefix in REASONS):
        with suppress(LookError):
            names = [n for n in live.list_dir(folder) if n.startswith(prefix) and not n.endswith("status")]
            names = names[:_MOST_REASONS]
            if names:
                files = [_open_number(live, f"{folder}/{name}", closing) for name in names]
                return [name.removeprefix(prefix) for name in names], files
    return [], []


def _times(number: Callable[[], float], scale: float) -> Callable[[float], Sequence[float]]:
    return lambda _now: (number() * scale,)


def _open_number(
    live: Live, path: str, closing: ExitStack, parse: Callable[[bytes], float] = int
) -> Callable[[], float]:
    file = live.follow(path, _LIMIT_BYTES)
    closing.callback(file.close)

    def read() -> float:
        text = file()
        try:
            return parse(text)
        except ValueError as error:
            raise LookError(f"{path}: {text[:40]!r} is not a number") from error

    return read
