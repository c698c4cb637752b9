"""Everything that could be bought for a model with its price and speed, and which to take, for `unslow choose`."""

from collections.abc import Iterator, Sequence
from functools import cache
from math import inf
from typing import Literal, NamedTuple

import msgspec

from unslow.buy import rigs
from unslow.buy.report import AskedShown, BuyerPrices, RigShown
from unslow.buy.rigs import ModelRating, Rig
from unslow.catalog.devices import all_devices
from unslow.catalog.prices import shop_price
from unslow.catalog.quants import find_mix, mixes, split_quant
from unslow.commands._output import Progress
from unslow.commands.choose import ChooseRequest
from unslow.commands.models.find import FoundModel, as_quant
from unslow.commands.models.well_known import mix_named
from unslow.commands.predict import PredictRequest
from unslow.facts.values import Unknown
from unslow.think.hardware import Hardware, Room
from unslow.think.memo import remember_once

CHOICE_SCHEMA = "unslow.choice/1"
USUAL_QUANTS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "IQ3_XXS", "Q2_K")
"""What publishers offer of nearly every model, the finest first."""
_AT_SLOWER = "two different cards: estimated at the speed of the slower one"
_RUNNERS_UP = 5
_RECENT_YEARS = 6  # Before the newest offer: older devices are seldom for sale, and named last
_NOT_EVEN_PARTLY = "the model does not fit, even with part of it in host memory"
Refusal = Literal["too_dear", "does_not_fit", "too_slow", "price_unknown", "cannot_tell"]
_WORDS: dict[Refusal, str] = {
    "too_dear": "over budget",
    "does_not_fit": "the whole model does not fit",
    "too_slow": "the low end is below the goal",
    "price_unknown": 'price unknown, so the budget cannot be checked: give one with --price "NAME=AMOUNT"',
    "cannot_tell": "no speed prediction",
}


class OfferShown(msgspec.Struct, frozen=True, kw_only=True):
    """Something to buy, together with the hardware already there."""

    rig: RigShown
    total: float | None  # Price to pay: devices, and a computer where one is counted; None if unknown
    margin: float | None = None  # The low end of the speed as a share of the goal; None without a goal
    reasons: tuple[str, ...] = ()


class RefusedShown(msgspec.Struct, frozen=True, kw_only=True):
    """Offers ruled out for one reason, and the closest of them."""

    why: Refusal
    words: str
    count: int
    nearest: tuple[OfferShown, ...] = ()


class WayShown(msgspec.Struct, frozen=True, kw_only=True):
    """One relaxed condition under which an offer reaches the goal."""

    gives: Literal["budget", "quant", "context", "host", "model", "goal"]  # `host`: part of the model in host memory
    words: str


class ChoiceReport(msgspec.Struct, frozen=True, kw_only=True):
    """What to buy; without `chosen` where nothing reaches the goal within the budget."""

    schema: str = CHOICE_SCHEMA
    unslow_version: str
    asked: AskedShown
    budget: float | None
    currency: str
    goal_tokens_per_s: float | None  # Of one request
    have: str = ""
    chosen: OfferShown | None = None
    runners_up: tuple[OfferShown, ...] = ()
    refused: tuple[RefusedShown, ...] = ()
    ways: tuple[WayShown, ...] = ()
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Aim(NamedTuple):
    """What is wanted."""

    budget: float | None = None
    goal: float | None = None  # Tokens per second of one conversation, at the low end
    partly: bool = False  # Whether a part of the model may lie on the host


class Choice(NamedTuple):
    """The best offer, the runners-up and the refused ones."""

    best: OfferShown | None
    runners_up: tuple[OfferShown, ...]
    refused: tuple[RefusedShown, ...]


class Market(NamedTuple):
    """What is asked, and with which prices."""

    request: ChooseRequest
    prices: BuyerPrices
    found: FoundModel
    question: PredictRequest
    quants: tuple[str, ...]
    have: Rig | None
    asked: AskedShown

    def offers(self, aim: Aim, progress: Progress) -> Iterator[OfferShown]:
        """Every offer with the finest quant that reaches the goal, or with the fastest where none does."""
        every = list(self.pairs())
        for n, (rig, beside) in enumerate(every):
            if n % 32 == 0:
                progress.step(f"predicting {len(every)} offers", n / len(every))
            yield self.offer(rig, beside, aim)

    def pairs(self) -> Iterator[tuple[Rig, Rig | None]]:
        """What could be bought, alone or beside what is there."""
        if self.have:
            yield self.have, self.have
        sold, names = list(rigs.buyable_rigs(all_devices())), [name.casefold().strip() for name in self.request.among]
        makers = {rig.device.vendor.casefold() for rig in sold} & set(names)
        among = [rigs.parse_rig(name) for name in names if name not in makers]
        for rig in sold:
            if names and rig.device.vendor.casefold() not in makers and not any(map(rig.is_one_of, among)):
                continue
            yield rig, None
            have = self.have
            if have and rig.number == 1 and rigs.is_card(rig.device) and rig.device.vendor == have.device.vendor:
                yield rig, self.have

    def offer(self, rig: Rig, beside: Rig | None, aim: Aim, quants: Sequence[str] = ()) -> OfferShown:
        """One offer."""
        shown = self._best(rig, beside, aim, quants or self.quants)
        price = self.prices.of(rig.device, rig.label, smallest=rig.is_smallest)
        total, margin = 0.0 if beside is rig else None, None
        if beside is not rig and price is not None and self.prices.is_buyable(rig.device, price):
            host = self.request.host_price if rig.device.kind == "gpu" and beside is None else 0.0
            total = price.amount * rig.number + host
        if aim.goal is not None and shown.speed:
            margin = shown.speed.each_tokens_per_s.low / aim.goal
        return OfferShown(rig=shown, total=total, margin=margin)

    def _best(self, rig: Rig, beside: Rig | None, aim: Aim, quants: Sequence[str]) -> RigShown:
        """In the finest quant that reaches the goal; else in the coarsest that fits, which is the fastest."""
        hardware = self._hardware(rig, beside)
        if isinstance(hardware, Unknown):
            return self._rig_shown(rig, beside, quants[-1], hardware)
        best: tuple[str, ModelRating | Unknown] = (quants[-1], rigs.UNFIT)
        for quant in quants:
            answer = rigs.rate_model(self.in_quant(quant), hardware, self.question, whole=not self.request.partly)
            if isinstance(answer, ModelRating):
                best = quant, answer
                if aim.goal is None or answer.speed.each_tokens_per_s.low >= aim.goal:
                    break
        return self._rig_shown(rig, beside, *best)

    def _hardware(self, rig: Rig, beside: Rig | None) -> Hardware | Unknown:
        if beside is None or beside is rig:
            return rigs.hardware_of(rig, self.question)
        if beside.device.name == rig.device.name:
            return rigs.hardware_of(rig._replace(number=beside.number + 1), self.question)
        new, old = rigs.hardware_of(rig, self.question), rigs.hardware_of(beside, self.question)
        if isinstance(new, Unknown) or isinstance(old, Unknown):
            return new if isinstance(new, Unknown) else old
        slower = min(new, old, key=lambda hardware: hardware.device.memory_bytes_per_s)
        # In the finest quant, which any other stays below
        plan = self.in_quant(self.quants[0]).blueprint
        sizes = (sum(tensor.bytes for tensor in layer) for layer in plan.layer_tensors)
        largest_layer = remember_once(plan, "layer", lambda: max(sizes, default=0))
        rooms = alike_rooms((*new.rooms, *old.rooms), largest_layer)
        return slower._replace(devices=(slower.device,) * len(rooms), rooms=rooms, chips=slower.chips[:1] * len(rooms))

    def _rig_shown(self, rig: Rig, beside: Rig | None, quant: str, answer: ModelRating | Unknown) -> RigShown:
        shown = rigs.rig_shown(rig, self.prices, quant, answer)
        if beside is None:
            return shown
        if beside is rig:
            own = f"already there: {rig.name}"
            return msgspec.structs.replace(shown, name=own, price=None, price_per_token_per_s=None)
        notes = shown.notes if beside.device.name == rig.device.name else (*shown.notes, _AT_SLOWER)
        return msgspec.structs.replace(
            shown,
            name=f"{rig.name} plus your {beside.name}",
            memory_bytes=(shown.memory_bytes or 0) + beside.number * beside.each_bytes,
            tdp_w=(shown.tdp_w or 0) + beside.number * beside.device.tdp_w,
            notes=notes,
        )

    def in_quant(self, quant: str) -> FoundModel:
        """The model in another quant."""
        if quant == self.found.quant:
            return self.found
        return remember_once(
            self.found.blueprint,
            ("quant", quant),
            lambda: self.found._replace(blueprint=as_quant(self.found.blueprint, quant), quant=quant),
        )


def quants_of(found: FoundModel, request: ChooseRequest) -> tuple[str, ...]:
    """The quant that is asked for or published; else, for a goal, the usual ones from the finest down to the least."""
    _, carried = split_quant(request.model.rsplit("/", 1)[-1])
    if request.quant or carried or found.source != "catalogue" or found.quant not in USUAL_QUANTS:
        return (found.quant,)
    least = mix_named(request.quant_least)
    if request.goal is None:
        return (least.name,)  # speeds are compared in one quant
    return tuple(q for q in USUAL_QUANTS if find_mix(q).bits_per_weight >= least.bits_per_weight) or (least.name,)


def alike_rooms(rooms: Sequence[Room], largest_layer: int) -> tuple[Room, ...]:
    """Unlike cards as so many alike, which hold no more than those do: layers do not divide, so half of one is lost."""
    usable = sum(room.usable_bytes for room in rooms) // len(rooms) - largest_layer // 2
    return tuple(room._replace(capacity_bytes=max(0, usable), others_bytes=0, reserve_bytes=0) for room in rooms)


def choose_offer(offers: Sequence[OfferShown], aim: Aim) -> Choice:
    """The offer to take, the next ones, and why the others were refused.

    The low end of the speed counts. More money never makes a slower choice: with a goal the cheapest that reaches it
    stays the cheapest, without one a larger budget only adds offers to choose the fastest from.
    """
    why = [(offer, refusal(offer, aim)) for offer in offers]
    fine = sorted((offer for offer, reason in why if reason is None), key=lambda offer: offer_rank(offer, aim))
    groups = {reason: [o for o, r in why if r == reason] for reason in _WORDS}
    refused = tuple(_refused_group(reason, found, aim) for reason, found in groups.items() if found)
    best = fine[0] if fine else None
    seen = {best.rig.device} if best else set[str]()
    found: list[OfferShown] = []
    for offer in fine[1:]:  # each device once: twice the chosen card is not another idea
        if offer.rig.device not in seen and len(found) < _RUNNERS_UP:
            seen.add(offer.rig.device)
            found.append(offer)
    return Choice(best, tuple(found), refused)


def refusal(offer: OfferShown, aim: Aim) -> Refusal | None:
    """Why an offer is refused; None where it is not."""
    if offer.rig.fits == "no":
        return "does_not_fit"
    if offer.rig.speed is None:
        return "cannot_tell"
    if aim.goal is not None and low_rate(offer) < aim.goal:
        return "too_slow"
    if aim.budget is None:
        return None
    if offer.total is None:
        return "price_unknown"
    return "too_dear" if offer.total > aim.budget else None


def low_rate(offer: OfferShown) -> float:
    """The low end of what one conversation gets."""
    return offer.rig.speed.each_tokens_per_s.low if offer.rig.speed else 0.0


def offer_rank(offer: OfferShown, aim: Aim) -> tuple[float, float, float, int, str]:
    """The smaller the better; where the goal is reached for the same price, the finer quant, then the faster one."""
    price, newest = inf if offer.total is None else offer.total, -(offer.rig.year or 0)
    if aim.goal is None:
        return -low_rate(offer), price, 0.0, newest, offer.rig.name
    mix = mixes().get(offer.rig.quant) if offer.total is not None else None
    return price, -mix.bits_per_weight if mix else 0.0, -low_rate(offer), newest, offer.rig.name


def _refused_group(why: Refusal, offers: Sequence[OfferShown], aim: Aim) -> RefusedShown:
    since = max((offer.rig.year or 0 for offer in offers), default=0) - _RECENT_YEARS
    # Whether it would be too dear as well, for all that is known
    near = sorted(
        offers,
        key=lambda offer: (
            aim.budget is not None and (offer.total is None or offer.total > aim.budget),
            *_nearness(why, offer, since),
            offer.rig.name,
        ),
    )
    words = _NOT_EVEN_PARTLY if why == "does_not_fit" and aim.partly else _WORDS[why]
    return RefusedShown(why=why, words=words, count=len(offers), nearest=tuple(near[:3]))


def _nearness(why: Refusal, offer: OfferShown, since: int) -> tuple[float, ...]:
    """The smaller the nearer; of those without a price the recent ones first, by what they once cost."""
    if why == "too_dear":
        return offer.total or inf, -low_rate(offer)
    if why == "does_not_fit":
        return -(offer.rig.memory_bytes or 0), offer.total or inf
    if why == "price_unknown":
        return (offer.rig.year or 0) < since, offer.rig.count * _earlier_price(offer.rig.device), low_rate(offer)
    return (-low_rate(offer),)


@cache
def _earlier_price(name: str) -> float:
    """What one was seen or launched for, which orders it where the price does not count; inf where nothing is known."""
    found = next((shop_price(device) for device in all_devices() if device.name == name), None)
    return found.usd if found else inf
