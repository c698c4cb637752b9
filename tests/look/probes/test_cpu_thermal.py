import pytest
from trees import tree

from unslow.facts.machine import Machine
from unslow.facts.values import Unknown
from unslow.look.probes.cpu_thermal import THROTTLES, read

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


def test_the_whole_chip_and_how_often_it_was_too_hot():
    cpu = read(tree(INTEL)).cpu
    assert (cpu.temperature_c.need(), cpu.package_throttles.need()) == (97, 1234)


def test_a_processor_that_does_not_count():
    cpu = read(tree(RYZEN)).cpu
    assert cpu.temperature_c.need() == 71.25
    assert isinstance(cpu.package_throttles, Unknown)


@pytest.mark.parametrize(
    "files", [{}, {"/sys/class/hwmon/hwmon0/name": "nvme\n"}, {"/sys/class/hwmon/hwmon0/name": ""}]
)
def test_a_machine_without_sensors_is_left_alone(files: dict[str, str]):
    assert read(tree(files)) == Machine()


def test_the_one_sensor_of_a_board():
    files = {"/sys/class/hwmon/hwmon0/name": "cpu_thermal\n", "/sys/class/hwmon/hwmon0/temp1_input": "85600\n"}
    assert read(tree(files)).cpu.temperature_c.need() == 85.6
