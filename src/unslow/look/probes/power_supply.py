"""Whether the machine runs on its battery: /sys/class/power_supply."""

from unslow.facts.machine import Machine
from unslow.facts.machine import System as SystemFacts
from unslow.facts.values import reported
from unslow.look.kernel import read_word
from unslow.look.system import System, try_look

TURN = 1  # see the probes' own page
SUPPLIES = "/sys/class/power_supply"
_MOST = 32


def read(system: System) -> Machine:
    """Nothing at all where there is no battery: a desktop always has its mains."""
    names = try_look([], system.list_dir, SUPPLIES)[:_MOST]
    words = [
        {key: try_look("", read_word, system, f"{SUPPLIES}/{name}/{key}") for key in ("type", "status", "online")}
        for name in names
    ]
    batteries = [supply for supply in words if supply["type"] == "Battery"]
    if not batteries:
        return Machine()
    mains = any(supply["type"] != "Battery" and supply["online"] == "1" for supply in words)
    drained = any(battery["status"] == "Discharging" for battery in batteries)
    return Machine(system=SystemFacts(on_battery=reported(drained and not mains, SUPPLIES)))
