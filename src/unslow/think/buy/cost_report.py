"""The versioned answer of `unslow cost`."""

from typing import Literal

from unslow.think.buy.report import AskedShown, PriceShown, RigShown
from unslow.think.speed.report import Shown

COST_SCHEMA = "unslow.cost/1"
How = Literal["own", "rent", "rent all day", "api"]


class UseShown(Shown, frozen=True, kw_only=True):
    """How much is asked in a day."""

    tokens_per_day: float
    """Generated ones."""
    prompt_tokens_per_day: float
    prompt_ratio: float
    """Prompt tokens that are read for each generated one."""
    said: Literal["tokens_per_day", "hours_per_day", "utilisation"]


class WayShown(Shown, frozen=True, kw_only=True):
    """One way to get the tokens, and what a month of it costs."""

    how: How
    name: str
    rig: RigShown | None = None
    """What runs the model; None for an API."""
    price: PriceShown | None = None
    """To buy, of an hour, or of a million generated tokens; None where none is known."""
    input_price: float | None = None
    """Of a million prompt tokens, of an API."""
    per_million: float | None = None
    """What a million generated tokens cost with their prompts, all counted; None where it can't be told."""
    per_month: float | None = None
    capital_per_month: float | None = None
    """The price without what it sells for, spread over the years."""
    power_per_month: float | None = None
    watts: float | None = None
    """While it works."""
    busy_share: float | None = None
    """Of the day; above 1 it can't do so much."""
    most_tokens_per_day: float | None = None
    """What it can make in a day without a pause."""
    enough: bool | None = None
    """Whether it can make as many as are asked for; None where that is not known."""
    reason: str = ""


class BreakEvenShown(Shown, frozen=True, kw_only=True):
    """After how long owning has cost less than another way."""

    own: str
    against: str
    months: float | None
    """None where it never does: the other way costs less than the electricity. It may be more than the years of use."""


class CostReport(Shown, frozen=True, kw_only=True):
    """Own against rent against API."""

    schema: str = COST_SCHEMA
    unslow_version: str
    asked: AskedShown
    use: UseShown
    currency: str
    electricity_per_kwh: float
    years: float
    ways: tuple[WayShown, ...] = ()
    """The cheapest first; what can't do it or can't be told last."""
    break_even: tuple[BreakEvenShown, ...] = ()
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
