"""Intel GPUs through the files of the i915 and xe drivers: clock, power, temperature and reasons."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, suppress

from unslow.facts.units import MHZ
from unslow.look.kernel.drm_cards import Card, read_cards
from unslow.look.kernel.hwmon import MICRO, MILLI, Sensors, read_sensors
from unslow.look.sampler.reading import REASON_BITS, SELDOM_S, Device, Rate, Reading
from unslow.look.system import Live, LookError

DRIVER = True
INTEL = "0x8086"
_BUILT_IN = "0000:00:02.0"  # where every graphics unit inside an Intel processor is
_CLOCKS = ("device/tile0/gt0/freq0/act_freq", "gt/gt0/rps_act_freq_mhz", "gt_act_freq_mhz")
_REASONS = (("device/tile0/gt0/freq0/throttle", "reason_"), ("gt/gt0", "throttle_reason_"))
_LIMIT_BYTES = 64
_MOST_REASONS = 24  # as many bits as a number of single precision holds


def open_readings(live: Live, _pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """The readings of every GPU, cards before what is built in; LookError where there is none."""
    cards = sorted(read_cards(live, INTEL), key=lambda card: card.bus_id == _BUILT_IN)
    if not cards:
        raise LookError("no Intel GPU is there")
    return [reading for index, card in enumerate(cards) for reading in _readings(live, index, card, closing)]


def _readings(live: Live, index: int, card: Card, closing: ExitStack) -> Iterator[Reading]:
    names, files = _open_reasons(live, card, closing)
    device = Device(index, card.bus_id, lambda bits: [name for at, name in enumerate(names) if bits >> at & 1])
    sensors = read_sensors(live, card.device)
    for path in (f"{card.path}/{file}" for file in _CLOCKS):
        with suppress(LookError):
            yield _reading(device, "clock_hz", _times(_open_number(live, path, closing), MHZ))
            break
    yield from _sensed(live, device, sensors, closing)
    if files:
        bits = lambda _now: (float(sum((file() == 1) << at for at, file in enumerate(files))),)  # noqa: E731 (short)
        yield _reading(device, REASON_BITS, bits, SELDOM_S)


def _sensed(live: Live, device: Device, sensors: Sensors, closing: ExitStack) -> Iterator[Reading]:
    """Energy is counted, so power is its growth; temperature by the package's sensor, else by the first."""
    energy = next((name for name in ("energy1_input", "energy2_input") if sensors.has(name)), "")
    warm = f"{sensors.labels['pkg']}_input" if "pkg" in sensors.labels else "temp1_input"
    with suppress(LookError):
        joules, rate = _open_number(live, f"{sensors.path}/{energy}", closing), Rate()
        yield _reading(device, "power_w", lambda now: (rate(joules() * MICRO, now),))
    with suppress(LookError):
        degrees = _open_number(live, f"{sensors.path}/{warm}", closing)
        yield _reading(device, "temperature_c", _times(degrees, MILLI), SELDOM_S)


def _open_reasons(live: Live, card: Card, closing: ExitStack) -> tuple[list[str], list[Callable[[], int]]]:
    """Why the clock is held down, in Intel's words: one file for each reason."""
    for folder, prefix in ((f"{card.path}/{folder}", prefix) for folder, prefix in _REASONS):
        with suppress(LookError):
            names = [n for n in live.list_dir(folder) if n.startswith(prefix) and not n.endswith("status")]
            names = names[:_MOST_REASONS]
            if names:
                files = [_open_number(live, f"{folder}/{name}", closing) for name in names]
                return [name.removeprefix(prefix) for name in names], files
    return [], []


def _reading(device: Device, column: str, read: Callable[[float], Sequence[float]], every_s: float = 0.0) -> Reading:
    return Reading(f"gpu{device.number} {column}", (column,), read, device, every_s)


def _times(number: Callable[[], int], scale: float) -> Callable[[float], Sequence[float]]:
    return lambda _now: (number() * scale,)


def _open_number(live: Live, path: str, closing: ExitStack) -> Callable[[], int]:
    """The file's number, each time anew."""
    file = live.follow(path, _LIMIT_BYTES)
    closing.callback(file.close)

    def read() -> int:
        text = file()
        try:
            return int(text)
        except ValueError as error:
            raise LookError(f"{path}: {text[:40]!r} is not a number") from error

    return read
