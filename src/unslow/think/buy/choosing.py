"""Which offer to take: the cheapest that reaches the goal, or without a goal the fastest within the budget."""

from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from unslow.think.buy.choice_report import OfferShown, Refusal, RefusedShown

_RUNNERS_UP = 5
_NEAREST = 3
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


def rank(offer: OfferShown, aim: Aim) -> tuple[float, float, str]:
    """The smaller the better."""
    price = inf if offer.total is None else offer.total
    return (price, -low(offer), offer.rig.name) if aim.goal is not None else (-low(offer), price, offer.rig.name)


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
    near = sorted(offers, key=lambda offer: (_over(offer, aim), *_nearness(why, offer), offer.rig.name))
    return RefusedShown(why=why, words=_WORDS[why], count=len(offers), nearest=tuple(near[:_NEAREST]))


def _nearness(why: Refusal, offer: OfferShown) -> tuple[float, ...]:
    """The smaller the nearer; of those without a price the slowest that will do, which is likely the cheapest."""
    if why == "too_dear":
        return offer.total or inf, -low(offer)
    if why == "does_not_fit":
        return -(offer.rig.memory_bytes or 0), offer.total or inf
    return (low(offer),) if why == "price_unknown" else (-low(offer),)


def _over(offer: OfferShown, aim: Aim) -> bool:
    """Whether it would be too dear as well, for all that is known."""
    return aim.budget is not None and (offer.total is None or offer.total > aim.budget)
