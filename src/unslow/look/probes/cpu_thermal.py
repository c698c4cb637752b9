"""How hot the processor is, and how often it was too hot: its hwmon and Intel's counters of throttling."""

from collections.abc import Iterable

from unslow.facts.machine import Cpu, Machine
from unslow.facts.values import Degrees, Fact, Known, not_found, reported
from unslow.look.kernel import MILLI, Sensors, read_number, read_word
from unslow.look.system import System, try_look

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
    temperature: Fact[Degrees] = not_found(f"{HWMON} has no sensor of a processor")
    for folder in (f"{HWMON}/{name}" for name in try_look([], system.list_dir, HWMON)[:_MOST]):
        driver = try_look("", read_word, system, f"{folder}/name")
        if driver not in (*_ONE_SENSOR, *_LABELS):
            continue
        sensors = Sensors(system, folder)
        readings: Iterable[Fact[Degrees]] = (sensors.labelled(x, "input", MILLI) for x in _LABELS.get(driver, ()))
        if driver in _ONE_SENSOR:
            readings = (sensors.number(("temp1_input",), MILLI),)
        if known := next((reading for reading in readings if isinstance(reading, Known)), None):
            temperature = known
            break
    count = try_look(None, read_number, system, THROTTLES)  # Intel's processors count; AMD's do not
    if count is None and not isinstance(temperature, Known):
        return Machine()
    throttles = not_found(f"{THROTTLES} is not there") if count is None else reported(count, THROTTLES)
    return Machine(cpu=Cpu(temperature_c=temperature, package_throttles=throttles))
