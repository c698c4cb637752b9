"""Why local inference is slow, what the hardware should give, and the proof.

What is typed below is imported when it is used: the command line does without most of it. `__init__.pyi`, which `make
docs` writes, tells the types to whoever checks a program that uses it.
"""

import importlib
from typing import Any

__version__ = "0.1.0"
_HOMES = {
    "unslow.buy.cost": ("CostReport",),
    "unslow.buy.offers": ("ChoiceReport",),
    "unslow.buy.report": ("DevicesReport",),
    "unslow.buy.tiers": ("TiersReport",),
    "unslow.commands._formats": ("to_html", "to_json", "to_text"),
    "unslow.commands._output": ("Progress",),
    "unslow.commands.check": ("check",),
    "unslow.commands.choose": ("choose",),
    "unslow.commands.collect": ("collect", "save"),
    "unslow.commands.cost": ("cost",),
    "unslow.commands.devices": ("devices",),
    "unslow.commands.diagnose": ("diagnose",),
    "unslow.commands.explain": ("causes", "explain"),
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
    "unslow.fleet.capacity.report": ("CapacityReport",),
    "unslow.fleet.report": ("FleetReport",),
    "unslow.live.transformers": ("watch",),
    "unslow.think.claims.report": ("CheckReport",),
    "unslow.think.fit.report": ("FitReport",),
    "unslow.think.plan.report": ("PlanReport",),
    "unslow.think.report": ("Page", "Report"),
    "unslow.think.speed.report": ("PredictionReport",),
    "unslow.page.view": ("View",),
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
