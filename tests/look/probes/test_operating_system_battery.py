import pytest
from trees import tree

from unslow.facts.values import NOT_LOOKED
from unslow.look.probes.operating_system import SUPPLIES, read


def laptop(online: str, status: str) -> dict[str, str]:
    return {
        f"{SUPPLIES}/AC/type": "Mains\n",
        f"{SUPPLIES}/AC/online": f"{online}\n",
        f"{SUPPLIES}/BAT0/type": "Battery\n",
        f"{SUPPLIES}/BAT0/status": f"{status}\n",
    }


@pytest.mark.parametrize(
    ("online", "status", "drained"), [("0", "Discharging", True), ("1", "Charging", False), ("1", "Discharging", False)]
)
def test_on_battery_needs_discharging_without_mains(online, status, drained):
    assert read(tree(laptop(online, status))).system.on_battery.need() is drained


@pytest.mark.parametrize("files", [{}, {f"{SUPPLIES}/AC/type": "Mains\n", f"{SUPPLIES}/AC/online": "1\n"}])
def test_a_machine_without_a_battery_gives_no_facts(files):
    assert read(tree(files)).system.on_battery == NOT_LOOKED
