"""The verbs for Python programs: typed, silent unless asked, and with the very answers of the command line.

Each answer is a frozen struct that later versions keep; what can't be done is a `UserError` with a message and a hint.
"""

from unslow.api.buying import choose, cost, devices, tiers
from unslow.api.diagnosing import collect, diagnose, save, triage
from unslow.api.fitting import fit, models
from unslow.api.fleets import diagnose_fleet, fleet_capacity
from unslow.api.judging import Page, causes, check, explain
from unslow.api.planning import plan
from unslow.api.predicting import predict
from unslow.api.showing import to_html, to_json, to_text
from unslow.api.viewing import view
from unslow.app.progress import Progress
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Snapshot
from unslow.facts.stored_model import Inventory
from unslow.think.buy.choice_report import ChoiceReport
from unslow.think.buy.cost_report import CostReport
from unslow.think.buy.report import DevicesReport
from unslow.think.buy.tiers_report import TiersReport
from unslow.think.claims.report import CheckReport
from unslow.think.fit.report import FitReport
from unslow.think.fleet.capacity_report import CapacityReport
from unslow.think.fleet.report import FleetReport
from unslow.think.plan.report import PlanReport
from unslow.think.report import Report
from unslow.think.speed.report import PredictionReport
from unslow.think.view.report import View

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
]
