"""How hot the processor is, and how often it was too hot: its hwmon and Intel's counters of throttling."""

from unslow.facts.machine import Cpu, Machine
from unslow.facts.values import Count, Degrees, Fact, Known, not_found, reported
from unslow.look.kernel import MILLI, Sensors, read_number, read_word
from unslow.look.system import LookError, System

TURN = 1  # see the probes' own page
HWMON = "/sys/class/hwmon"
THROTTLES = "/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count"
# Drivers of processors and the label of the sensor that stands for the whole chip; the first that is there counts.
_LABELS = {"coretemp": ("Package id 0",), "k10temp": ("Tdie", "Tctl"), "zenpower": ("Tdie",)}
_ONE_SENSOR = ("cpu_thermal", "soc_thermal", "package_thermal")
"""Drivers of ARM boards, whose only sensor has no label."""
_MOST = 64


def read(system: System) -> Machine:
    """The processor's temperature; nothing at all where no sensor is listed."""
    temperature, throttles = _read_temperature(system), _read_throttles(system)
    if not isinstance(temperature, Known) and not isinstance(throttles, Known):
        return Machine()
    return Machine(cpu=Cpu(temperature_c=temperature, package_throttles=throttles))


def _read_temperature(system: System) -> Fact[Degrees]:
    try:
        names = system.list_dir(HWMON)[:_MOST]
    except LookError:
        names = []
    for folder in (f"{HWMON}/{name}" for name in names):
        try:
            driver = read_word(system, f"{folder}/name")
        except LookError:
            continue
        found = _of_driver(system, folder, driver)
        if found:
            return found
    return not_found(f"{HWMON} has no sensor of a processor")


def _of_driver(system: System, folder: str, driver: str) -> Known[Degrees] | None:
    """The chip's temperature by this driver; None where it is of something else."""
    if driver in _ONE_SENSOR:
        reading = Sensors(system, folder).number(("temp1_input",), MILLI)
        return reading if isinstance(reading, Known) else None
    return _first(Sensors(system, folder), _LABELS[driver]) if driver in _LABELS else None


def _first(sensors: Sensors, labels: tuple[str, ...]) -> Known[Degrees] | None:
    readings = (sensors.labelled(label, "input", MILLI) for label in labels)
    return next((reading for reading in readings if isinstance(reading, Known)), None)


def _read_throttles(system: System) -> Fact[Count]:
    """Intel's processors count; AMD's do not."""
    try:
        return reported(read_number(system, THROTTLES), THROTTLES)
    except LookError:
        return not_found(f"{THROTTLES} is not there")
