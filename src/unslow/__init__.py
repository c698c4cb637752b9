"""Why local inference is slow, what the hardware should give, and the proof."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unslow.api import CapacityReport as CapacityReport
    from unslow.api import CheckReport as CheckReport
    from unslow.api import ChoiceReport as ChoiceReport
    from unslow.api import CostReport as CostReport
    from unslow.api import DevicesReport as DevicesReport
    from unslow.api import FitReport as FitReport
    from unslow.api import FleetReport as FleetReport
    from unslow.api import Inventory as Inventory
    from unslow.api import Page as Page
    from unslow.api import PlanReport as PlanReport
    from unslow.api import PredictionReport as PredictionReport
    from unslow.api import Progress as Progress
    from unslow.api import Report as Report
    from unslow.api import Snapshot as Snapshot
    from unslow.api import TiersReport as TiersReport
    from unslow.api import UserError as UserError
    from unslow.api import View as View
    from unslow.api import causes as causes
    from unslow.api import check as check
    from unslow.api import choose as choose
    from unslow.api import collect as collect
    from unslow.api import cost as cost
    from unslow.api import devices as devices
    from unslow.api import diagnose as diagnose
    from unslow.api import diagnose_fleet as diagnose_fleet
    from unslow.api import explain as explain
    from unslow.api import fit as fit
    from unslow.api import fleet_capacity as fleet_capacity
    from unslow.api import models as models
    from unslow.api import plan as plan
    from unslow.api import predict as predict
    from unslow.api import save as save
    from unslow.api import tiers as tiers
    from unslow.api import to_html as to_html
    from unslow.api import to_json as to_json
    from unslow.api import to_text as to_text
    from unslow.api import triage as triage
    from unslow.api import view as view
    from unslow.app.watch import watch as watch

__version__ = "0.1.0"
__all__ = [
    "CapacityReport",
    "CheckReport",
    "ChoiceReport",
    "CostReport",
    "DevicesReport",
    "FitReport",
    "FleetReport",
    "Inventory",
    "Page",
    "PlanReport",
    "PredictionReport",
    "Progress",
    "Report",
    "Snapshot",
    "TiersReport",
    "UserError",
    "View",
    "__version__",
    "causes",
    "check",
    "choose",
    "collect",
    "cost",
    "devices",
    "diagnose",
    "diagnose_fleet",
    "explain",
    "fit",
    "fleet_capacity",
    "models",
    "plan",
    "predict",
    "save",
    "tiers",
    "to_html",
    "to_json",
    "to_text",
    "triage",
    "view",
    "watch",
]


def __dir__() -> list[str]:
    """What there is, also what is imported only when it is used."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


if not TYPE_CHECKING:  # or every misspelled name would have a type

    def __getattr__(name: str) -> Any:
        """What is imported when it is used: the command line does without it."""
        if name not in __all__:
            raise AttributeError(f"module 'unslow' has no attribute {name!r}")
        value = getattr(importlib.import_module("unslow.app.watch" if name == "watch" else "unslow.api"), name)
        globals()[name] = value
        return value
