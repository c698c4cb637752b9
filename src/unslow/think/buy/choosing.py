"""Which offer to take: the cheapest that reaches the goal, or without a goal the fastest within the budget."""

from collections.abc import Iterable, Sequence
from functools import cache
from math import inf
from typing import NamedTuple

from unslow.catalog.devices import all_devices
from unslow.catalog.mixes import mixes
from unslow.catalog.prices import shop_price
from unslow.think.buy.choice_report import OfferShown, Refusal, RefusedShown

_RUNNERS_UP = 5
_NEAREST = 3
_RECENT_YEARS = 6
"""Before the newest offer: older devices are seldom for sale, and named last."""
_NOT_EVEN_PARTLY = "the model does not fit, not even with a part on the host"
_WORDS: dict[Refusal, str] = {
    "too_dear": "dearer than the budget",
    "does_not_fit": "the model does not fit whole",
    "too_slow": "the low end stays below the goal",
    "price_unknown": 'no price that holds against a budget: give yours with --price "NAME=AMOUNT"',
    "cannot_tell": "no speed is predicted",
}


class Aim(NamedTuple):
    """What is wanted."""

    budget: float | None = None
    goal: float | None = None
    """Tokens per second of one conversation, at the low end."""
    partly: bool = False
    """Whether a part of the model may lie on the host."""


class Chosen(NamedTuple):
    """The offers in three heaps."""

    best: OfferShown | None
    runners_up: tuple[OfferShown, ...]
    refused: tuple[RefusedShown, ...]


def chosen(offers: Sequence[OfferShown], aim: Aim) -> Chosen:
    """The offer to take, the next ones, and why the others were refused.

    The low end of the speed counts. More money never makes a slower choice: with a goal the cheapest that reaches it
    stays the cheapest, without one a larger budget only adds offers to choose the fastest from.
    """
    why = [(offer, refusal(offer, aim)) for offer in offers]
    fine = sorted((offer for offer, reason in why if reason is None), key=lambda offer: rank(offer, aim))
    heaps = {reason: [o for o, r in why if r == reason] for reason in _WORDS}
    refused = tuple(_refused(reason, found, aim) for reason, found in heaps.items() if found)
    best = fine[0] if fine else None
    return Chosen(best, _unlike(fine[1:], best), refused)


def refusal(offer: OfferShown, aim: Aim) -> Refusal | None:
    """Why an offer can't be taken; None where it can."""
    if offer.rig.fits == "no":
        return "does_not_fit"
    if offer.rig.speed is None:
        return "cannot_tell"
    if aim.goal is not None and low(offer) < aim.goal:
        return "too_slow"
    if aim.budget is None:
        return None
    if offer.total is None:
        return "price_unknown"
    return "too_dear" if offer.total > aim.budget else None


def low(offer: OfferShown) -> float:
    """The low end of what one conversation gets."""
    return offer.rig.speed.each_tokens_per_s.low if offer.rig.speed else 0.0


def rank(offer: OfferShown, aim: Aim) -> tuple[float, float, float, int, str]:
    """The smaller the better; where the goal is reached for the same price, the finer quant, then the faster one."""
    price, newest = inf if offer.total is None else offer.total, -(offer.rig.year or 0)
    if aim.goal is None:
        return -low(offer), price, 0.0, newest, offer.rig.name
    mix = mixes().get(offer.rig.quant) if offer.total is not None else None
    return price, -mix.bits_per_weight if mix else 0.0, -low(offer), newest, offer.rig.name


def _unlike(offers: Iterable[OfferShown], best: OfferShown | None) -> tuple[OfferShown, ...]:
    """The first few, each device once: twice the chosen card is no other idea."""
    seen = {best.rig.device} if best else set[str]()
    found: list[OfferShown] = []
    for offer in offers:
        if offer.rig.device not in seen and len(found) < _RUNNERS_UP:
            seen.add(offer.rig.device)
            found.append(offer)
    return tuple(found)


def _refused(why: Refusal, offers: Sequence[OfferShown], aim: Aim) -> RefusedShown:
    since = max((offer.rig.year or 0 for offer in offers), default=0) - _RECENT_YEARS
    near = sorted(offers, key=lambda offer: (_over(offer, aim), *_nearness(why, offer, since), offer.rig.name))
    words = _NOT_EVEN_PARTLY if why == "does_not_fit" and aim.partly else _WORDS[why]
    return RefusedShown(why=why, words=words, count=len(offers), nearest=tuple(near[:_NEAREST]))


def _nearness(why: Refusal, offer: OfferShown, since: int) -> tuple[float, ...]:
    """The smaller the nearer; of those without a price the recent ones first, by what they once cost."""
    if why == "too_dear":
        return offer.total or inf, -low(offer)
    if why == "does_not_fit":
        return -(offer.rig.memory_bytes or 0), offer.total or inf
    if why == "price_unknown":
        return (offer.rig.year or 0) < since, offer.rig.count * _once_cost(offer.rig.device), low(offer)
    return (-low(offer),)


@cache
def _once_cost(name: str) -> float:
    """What one was seen or launched for, which orders it where the price does not count; inf where nothing is known."""
    found = next((shop_price(device) for device in all_devices() if device.name == name), None)
    return found.usd if found else inf


def _over(offer: OfferShown, aim: Aim) -> bool:
    """Whether it would be too dear as well, for all that is known."""
    return aim.budget is not None and (offer.total is None or offer.total > aim.budget)
