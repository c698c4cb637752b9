"""The versioned answer of `unslow choose`."""

from typing import Literal

from unslow.think.buy.report import AskedShown, RigShown
from unslow.think.speed.report import Shown

CHOICE_SCHEMA = "unslow.choice/1"
Refusal = Literal["too_dear", "does_not_fit", "too_slow", "price_unknown", "cannot_tell"]


class OfferShown(Shown, frozen=True, kw_only=True):
    """Something to buy, with what is there already counted in."""

    rig: RigShown
    total: float | None
    """What has to be paid: devices, and a computer around them where one is counted; None where no price is known."""
    margin: float | None = None
    """The low end of the speed as a share of the goal; None without a goal."""
    reasons: tuple[str, ...] = ()


class RefusedShown(Shown, frozen=True, kw_only=True):
    """Why so many were not chosen, and those of them that were nearest."""

    why: Refusal
    words: str
    count: int
    nearest: tuple[OfferShown, ...] = ()


class WayShown(Shown, frozen=True, kw_only=True):
    """What would have to give so that something reaches the goal."""

    gives: Literal["budget", "quant", "context", "host", "model", "goal"]
    """`host`: a part of the model lies in its memory."""
    words: str


class ChoiceReport(Shown, frozen=True, kw_only=True):
    """What to buy; without `chosen` where nothing reaches the goal within the budget."""

    schema: str = CHOICE_SCHEMA
    unslow_version: str
    asked: AskedShown
    budget: float | None
    currency: str
    goal_tokens_per_s: float | None
    """Of one conversation."""
    have: str = ""
    chosen: OfferShown | None = None
    runners_up: tuple[OfferShown, ...] = ()
    refused: tuple[RefusedShown, ...] = ()
    ways: tuple[WayShown, ...] = ()
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
