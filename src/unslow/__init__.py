"""Why local inference is slow, what the hardware should give, and the proof.

What is typed below is imported when it is used: the command line does without most of it. `__init__.pyi`, which `make
docs` writes, tells the types to whoever checks a program that uses it.
"""

import importlib
from typing import Any

__version__ = "0.1.0"
_HOMES = {
    "unslow.app.progress": ("Progress",),
    "unslow.app.watch": ("watch",),
    "unslow.commands._showing": ("to_html", "to_json", "to_text"),
    "unslow.commands.check": ("check",),
    "unslow.commands.choose": ("choose",),
    "unslow.commands.collect": ("collect", "save"),
    "unslow.commands.cost": ("cost",),
    "unslow.commands.devices": ("devices",),
    "unslow.commands.diagnose": ("diagnose",),
    "unslow.commands.explain": ("Page", "causes", "explain"),
    "unslow.commands.fit": ("fit",),
    "unslow.commands.fleet": ("diagnose_fleet", "fleet_capacity"),
    "unslow.commands.models": ("models",),
    "unslow.commands.plan": ("plan",),
    "unslow.commands.predict": ("predict",),
    "unslow.commands.report": ("view",),
    "unslow.commands.tiers": ("tiers",),
    "unslow.commands.triage": ("triage",),
    "unslow.facts.errors": ("UserError",),
    "unslow.facts.snapshot": ("Snapshot",),
    "unslow.facts.stored_model": ("Inventory",),
    "unslow.think.buy.choice_report": ("ChoiceReport",),
    "unslow.think.buy.cost_report": ("CostReport",),
    "unslow.think.buy.report": ("DevicesReport",),
    "unslow.think.buy.tiers_report": ("TiersReport",),
    "unslow.think.claims.report": ("CheckReport",),
    "unslow.think.fit.report": ("FitReport",),
    "unslow.think.fleet.capacity_report": ("CapacityReport",),
    "unslow.think.fleet.report": ("FleetReport",),
    "unslow.think.plan.report": ("PlanReport",),
    "unslow.think.report": ("Report",),
    "unslow.think.speed.report": ("PredictionReport",),
    "unslow.think.view.report": ("View",),
}
"""Where each public name is."""
__all__ = sorted(["__version__", *(name for names in _HOMES.values() for name in names)])  # noqa: PLE0605 (the stub has it)


def __dir__() -> list[str]:
    """What there is, also what is imported only when it is used."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    """What is imported when it is used."""
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'unslow' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
