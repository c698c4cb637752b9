"""The blocks of the buyer's pages: what the commands print on the day of the newest shipped prices."""

from unslow.buy.choose import choose
from unslow.buy.cost import cost
from unslow.buy.devices import devices
from unslow.buy.show import render_choose, render_cost, render_devices, render_tiers
from unslow.buy.tiers import tiers
from unslow.catalog.prices import Price, all_prices
from unslow.commands.choose import ChooseRequest
from unslow.commands.cost import CostRequest
from unslow.commands.devices import DevicesRequest
from unslow.commands.tiers import TiersRequest
from unslow.look.system.live import LiveSystem

WIDTH = 100


class _ThatDay(LiveSystem):
    """The newest shipped prices are then some days old, whenever these pages are made."""

    def now(self) -> str:
        return f"{max(price.date for price in all_prices())}T00:00:00+00:00"


def buying_blocks() -> dict[str, str]:
    """The blocks of docs/how_to/buy.md."""
    named = ("RTX 5060 Ti 16GB", "RTX 3090", "2x RTX 3090", "RTX 5090", "M4 Max 64GB", "Strix Halo")
    compared = devices(_ThatDay(), DevicesRequest(names=named, model="qwen3-32b"))
    picked = choose(_ThatDay(), ChooseRequest(model="qwen3-32b", budget=1500, goal=20))
    missed = choose(_ThatDay(), ChooseRequest(model="llama-3.3-70b", budget=1500, goal=20))
    paid = cost(
        _ThatDay(), CostRequest(model="llama-3.3-70b", device=("2x RTX 3090",), tokens_per_day=2e5, electricity=0.30)
    )
    sizes = tiers(_ThatDay(), TiersRequest())
    return {
        "devices": render_devices(compared, "terminal", width=WIDTH, color=False),
        "choose": render_choose(picked, "terminal", width=WIDTH, color=False),
        "choose nothing": render_choose(missed, "terminal", width=WIDTH, color=False).partition("\nRefused")[0],
        "cost": render_cost(paid, "terminal", width=WIDTH, color=False),
        "tiers": render_tiers(sizes, "terminal", width=WIDTH, color=False),
    }


def shipped_prices() -> dict[str, str]:
    """The block of docs/explanation/prices.md."""
    rows = sorted(all_prices(), key=lambda price: (price.kind, price.of, price.usd))
    lines = [f"{p.kind:7}{p.of[:34]:36}{_amount(p):>13}  {p.date}  {p.seller}" for p in rows]
    sources = dict.fromkeys(f"{p.seller}, {p.date}: {p.source}" for p in rows)
    return {"prices": "\n".join([f"{'kind':7}{'of':36}{'USD':>13}  {'seen':10}  seller", *lines, "", *sources])}


def _amount(price: Price) -> str:
    if price.kind == "api":
        return f"{price.input_usd:g} / {price.output_usd:g}"
    return f"{price.usd:,.2f}/h" if price.kind == "rent" else f"{price.usd:,.0f}"
