"""Everything that could be bought for a model, with its price and its speed."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from unslow.app.buy.here import HERE, rig_here
from unslow.app.buy.rigs import hardware_of, parse_rig, rig_shown
from unslow.app.buy.speeds import UNFIT, Rated, find_work, rated, shown_work
from unslow.app.fit.chosen_mix import mix_named
from unslow.app.fit.models import Found, as_quant
from unslow.app.progress import Progress
from unslow.catalog.devices import all_devices
from unslow.catalog.mixes import find_mix
from unslow.catalog.quant_in_name import split_quant
from unslow.commands.choose import ChooseRequest
from unslow.commands.predict import PredictRequest
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.adapt.remembered import remembered
from unslow.think.buy.choice_report import OfferShown
from unslow.think.buy.choosing import Aim
from unslow.think.buy.prices import Purse
from unslow.think.buy.report import AskedShown, RigShown
from unslow.think.buy.rigs import Rig, buyable, is_card
from unslow.think.hardware import Hardware, Room

USUAL_QUANTS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "IQ3_XXS", "Q2_K")
"""What publishers offer of nearly every model, the finest first."""
_AT_SLOWER = "counted at the speed of the slower of two unlike cards: the least that they give"


class Market(NamedTuple):
    """What is asked, and with which prices."""

    request: ChooseRequest
    purse: Purse
    found: Found
    question: PredictRequest
    quants: tuple[str, ...]
    have: Rig | None

    @property
    def shown(self) -> AskedShown:
        """What was asked, as the report has it."""
        return shown_work(self.found, self.question)

    def offers(self, aim: Aim, progress: Progress) -> Iterator[OfferShown]:
        """Every offer with the finest quant that reaches the goal, or with the fastest where none does."""
        every = list(self.rigs())
        for n, (rig, beside) in enumerate(every):
            if n % 32 == 0:
                progress.step(f"predicting {len(every)} offers", n / len(every))
            yield self.offer(rig, beside, aim)

    def rigs(self) -> Iterator[tuple[Rig, Rig | None]]:
        """What could be bought, alone or beside what is there."""
        if self.have:
            yield self.have, self.have
        for rig in self._sold():
            yield rig, None
            if self.have and rig.number == 1 and is_card(rig.device) and rig.device.vendor == self.have.device.vendor:
                yield rig, self.have

    def _sold(self) -> Iterator[Rig]:
        """All of the catalogue, or those among which to choose."""
        sold, names = list(buyable(all_devices())), [name.casefold().strip() for name in self.request.among]
        makers = {rig.device.vendor.casefold() for rig in sold} & set(names)
        among = [parse_rig(name) for name in names if name not in makers]
        wanted = (rig for rig in sold if rig.device.vendor.casefold() in makers or any(map(rig.is_one_of, among)))
        return wanted if names else iter(sold)

    def offer(self, rig: Rig, beside: Rig | None, aim: Aim, quants: Sequence[str] = ()) -> OfferShown:
        """One offer."""
        shown = self._best(rig, beside, aim, quants or self.quants)
        return OfferShown(rig=shown, total=self._total(rig, beside), margin=_margin(shown, aim))

    def _best(self, rig: Rig, beside: Rig | None, aim: Aim, quants: Sequence[str]) -> RigShown:
        """In the finest quant that reaches the goal; else in the coarsest that fits, which is the fastest."""
        hardware = self._hardware(rig, beside)
        if isinstance(hardware, Unknown):
            return self._shown(rig, beside, quants[-1], hardware)
        best: tuple[str, Rated | Unknown] = (quants[-1], UNFIT)
        for quant in quants:
            answer = rated(self.in_quant(quant), hardware, self.question, whole=not self.request.partly)
            if isinstance(answer, Rated):
                best = quant, answer
                if aim.goal is None or answer.speed.each_tokens_per_s.low >= aim.goal:
                    break
        return self._shown(rig, beside, *best)

    def _hardware(self, rig: Rig, beside: Rig | None) -> Hardware | Unknown:
        if beside is None or beside is rig:
            return hardware_of(rig, self.question)
        if beside.device.name == rig.device.name:
            return hardware_of(rig._replace(number=beside.number + 1), self.question)
        new, old = hardware_of(rig, self.question), hardware_of(beside, self.question)
        if isinstance(new, Unknown) or isinstance(old, Unknown):
            return new if isinstance(new, Unknown) else old
        slower = min(new, old, key=lambda hardware: hardware.device.memory_bytes_per_s)
        rooms = alike_rooms((*new.rooms, *old.rooms), self._largest_layer())
        return slower._replace(devices=(slower.device,) * len(rooms), rooms=rooms, chips=slower.chips[:1] * len(rooms))

    def _largest_layer(self) -> int:
        """In the finest quant, which any other stays below."""
        plan = self.in_quant(self.quants[0]).blueprint
        layers = plan.layer_tensors
        return remembered(plan, "layer", lambda: max((sum(t.bytes for t in layer) for layer in layers), default=0))

    def _shown(self, rig: Rig, beside: Rig | None, quant: str, answer: Rated | Unknown) -> RigShown:
        shown = rig_shown(rig, self.purse, quant, answer)
        if beside is None:
            return shown
        if beside is rig:
            own = f"what you have: {rig.name}"
            return msgspec.structs.replace(shown, name=own, price=None, price_per_token_per_s=None)
        notes = shown.notes if beside.device.name == rig.device.name else (*shown.notes, _AT_SLOWER)
        return msgspec.structs.replace(
            shown,
            name=f"{rig.name} beside your {beside.name}",
            memory_bytes=(shown.memory_bytes or 0) + beside.number * beside.each_bytes,
            tdp_w=(shown.tdp_w or 0) + beside.number * beside.device.tdp_w,
            notes=notes,
        )

    def _total(self, rig: Rig, beside: Rig | None) -> float | None:
        if beside is rig:
            return 0.0
        price = self.purse.of(rig.device, rig.label, smallest=rig.is_smallest)
        if price is None or not self.purse.is_buyable(rig.device, price):
            return None
        host = self.request.host_price if rig.device.kind == "gpu" and beside is None else 0.0
        return price.amount * rig.number + host

    def in_quant(self, quant: str) -> Found:
        """The model in another quant."""
        if quant == self.found.quant:
            return self.found
        return remembered(self.found.blueprint, ("quant", quant), lambda: self._requantised(quant))

    def _requantised(self, quant: str) -> Found:
        return self.found._replace(blueprint=as_quant(self.found.blueprint, quant), quant=quant)


def alike_rooms(rooms: Sequence[Room], largest_layer: int) -> tuple[Room, ...]:
    """Unlike cards as so many alike, which hold no more than those do: layers do not divide, so half of one is lost."""
    usable = sum(room.usable_bytes for room in rooms) // len(rooms) - largest_layer // 2
    return tuple(room._replace(capacity_bytes=max(0, usable), others_bytes=0, reserve_bytes=0) for room in rooms)


def market_of(system: System, request: ChooseRequest, purse: Purse) -> Market:
    """What is asked of the market."""
    found, question, _ = find_work(system, request)
    return Market(request, purse, found, question, quants_of(found, request), _have(system, request.have))


def _have(system: System, name: str) -> Rig | None:
    """What is there already, by its name or as this machine has it."""
    if name.casefold() in HERE:
        return rig_here(system)
    return parse_rig(name) if name else None


def quants_of(found: Found, request: ChooseRequest) -> tuple[str, ...]:
    """The quant that is asked for or published; else, for a goal, the usual ones from the finest down to the least."""
    _, carried = split_quant(request.model.rsplit("/", 1)[-1])
    if request.quant or carried or found.source != "catalogue" or found.quant not in USUAL_QUANTS:
        return (found.quant,)
    least = mix_named(request.quant_least)
    if request.goal is None:
        return (least.name,)  # speeds are compared in one quant
    return tuple(q for q in USUAL_QUANTS if find_mix(q).bits_per_weight >= least.bits_per_weight) or (least.name,)


def coarser_than(quants: Sequence[str]) -> tuple[str, ...]:
    """The usual quants below those."""
    below = min(find_mix(quant).bits_per_weight for quant in quants)
    return tuple(q for q in USUAL_QUANTS if find_mix(q).bits_per_weight < below)


def _margin(shown: RigShown, aim: Aim) -> float | None:
    if aim.goal is None or shown.speed is None:
        return None
    return shown.speed.each_tokens_per_s.low / aim.goal
