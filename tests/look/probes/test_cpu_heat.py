import pytest
from trees import tree

from unslow.facts.values import NOT_LOOKED, Unknown
from unslow.look.probes.cpu import THROTTLES, read

INTEL = {
    "/sys/class/hwmon/hwmon0/name": "nvme\n",
    "/sys/class/hwmon/hwmon2/name": "coretemp\n",
    "/sys/class/hwmon/hwmon2/temp1_label": "Package id 0\n",
    "/sys/class/hwmon/hwmon2/temp1_input": "97000\n",
    "/sys/class/hwmon/hwmon2/temp2_label": "Core 0\n",
    "/sys/class/hwmon/hwmon2/temp2_input": "99000\n",
    THROTTLES: "1234\n",
}
RYZEN = {
    "/sys/class/hwmon/hwmon1/name": "k10temp\n",
    "/sys/class/hwmon/hwmon1/temp1_label": "Tctl\n",
    "/sys/class/hwmon/hwmon1/temp1_input": "71250\n",
}


def test_package_temperature_and_throttle_count_are_read():
    cpu = read(tree(INTEL)).cpu
    assert (cpu.temperature_c.need(), cpu.package_throttles.need()) == (97, 1234)


def test_a_cpu_without_a_throttle_counter_has_it_unknown():
    cpu = read(tree(RYZEN)).cpu
    assert cpu.temperature_c.need() == 71.25
    assert isinstance(cpu.package_throttles, Unknown)


@pytest.mark.parametrize(
    "files", [{}, {"/sys/class/hwmon/hwmon0/name": "nvme\n"}, {"/sys/class/hwmon/hwmon0/name": ""}]
)
def test_a_machine_without_cpu_sensors_gives_no_facts(files: dict[str, str]):
    cpu = read(tree(files)).cpu
    assert cpu.temperature_c == cpu.package_throttles == NOT_LOOKED


def test_a_single_board_cpu_thermal_sensor_is_read():
    files = {"/sys/class/hwmon/hwmon0/name": "cpu_thermal\n", "/sys/class/hwmon/hwmon0/temp1_input": "85600\n"}
    assert read(tree(files)).cpu.temperature_c.need() == 85.6
