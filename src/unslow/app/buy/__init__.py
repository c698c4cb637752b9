"""Answers a buyer: `unslow devices`, `choose`, `cost` and `tiers`, from the catalogue and the predictor alone."""

from unslow.app.buy.choose import choose
from unslow.app.buy.cost import cost
from unslow.app.buy.devices import devices
from unslow.app.buy.tiers import tiers

__all__ = ["choose", "cost", "devices", "tiers"]
