"""Answers `unslow cost`: to own, to rent or to buy tokens."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from unslow import __version__
from unslow.app.buy.amounts import named_amount, two_amounts
from unslow.app.buy.here import HERE, this_machine
from unslow.app.buy.purse import Told, purse_of, read_told
from unslow.app.buy.rigs import hardware_of, parse_rig, rig_shown
from unslow.app.buy.speeds import Rated, find_work, rated
from unslow.app.fit.models import Found
from unslow.app.progress import Progress, Silent
from unslow.catalog.prices import apis_of, rents_of
from unslow.commands.cost import CostRequest
from unslow.commands.predict import PredictRequest
from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.adapt.remembered import one_judgement
from unslow.think.buy.cost import Terms, Use, api, break_even, cheapest_first, own, rent, rivals, tokens_in, upfront
from unslow.think.buy.cost_report import CostReport, UseShown, WayShown
from unslow.think.buy.cost_words import assumptions, notes_on
from unslow.think.buy.devices import work_notes
from unslow.think.buy.prices import SHIPPED, Purse, shown
from unslow.think.buy.report import PriceShown, RigShown

ELECTRICITY = 0.30
"""Of a kWh, in whatever currency, where nothing is said: the report says that it was assumed."""
_RENTS = 3
"""How many of the shipped rents that can do it are shown, the cheapest first."""


class _Desk(NamedTuple):
    """All that the ways are worked out from."""

    system: System
    request: CostRequest
    told: Told
    purse: Purse
    found: Found
    question: PredictRequest

    def rig(self, name: str) -> RigShown:
        """A device by name with its speed."""
        if name.casefold() in HERE:
            return this_machine(self.system, self.request, self.purse)
        rig = parse_rig(name)
        hardware = hardware_of(rig, self.question)
        answer: Rated | Unknown = (
            hardware if isinstance(hardware, Unknown) else rated(self.found, hardware, self.question)
        )
        return rig_shown(rig, self.purse, self.found.quant, answer)


@one_judgement()
def cost(system: System, request: CostRequest, progress: Progress | None = None) -> CostReport:
    """What a million tokens cost with each device, rented or bought, and when owning has paid."""
    told = read_told(system, request.prices)
    purse = purse_of(system, told, request.price, request.currency)
    found, question, asked = find_work(system, request)
    desk = _Desk(system, request, told, purse, found, question)
    (progress or Silent()).step("predicting", 0.0)
    rigs = [desk.rig(name) for name in request.device]
    use = _use(request, rigs)
    terms = _terms(request, told)
    _check_resale(rigs, terms)
    owned = [own(rig, rig.price, use, terms) for rig in rigs]
    others = [*_rented(desk, use, rigs), *_sold(desk, use)]
    pairs = [break_even(mine, other, terms) for mine in owned for other in rivals(others)]
    said = request.electricity is not None or told.electricity is not None
    return CostReport(
        unslow_version=__version__,
        asked=asked,
        use=_use_shown(request, use),
        currency=purse.currency,
        electricity_per_kwh=terms.electricity,
        years=terms.years,
        ways=cheapest_first([*owned, *others]),
        break_even=tuple(pair for pair in pairs if pair),
        assumptions=assumptions(
            terms, use, purse.currency, users=question.batch, electricity_said=said, has_own=bool(owned)
        ),
        notes=(*work_notes(asked), *notes_on([*owned, *others], purse)),
    )


def _use(request: CostRequest, rigs: Sequence[RigShown]) -> Use:
    """Tokens of a day; hours and shares are those of the first device that can run the model."""
    if request.tokens_per_day is not None:
        return Use(request.tokens_per_day, request.prompt_ratio)
    hours = request.hours_per_day if request.hours_per_day is not None else 24 * (request.utilisation or 0.0)
    if not hours:
        raise UserError("a device that is never used makes no tokens", "give --tokens-per-day instead")
    speed = next((rig.speed for rig in rigs if rig.speed and rig.fits != "no"), None)
    if speed is None:
        raise UserError("hours of which device?", 'name one that holds the model: --device "RTX 3090"')
    return Use(tokens_in(hours, speed, request.prompt_ratio), request.prompt_ratio)


def _use_shown(request: CostRequest, use: Use) -> UseShown:
    names = ("tokens_per_day", "hours_per_day", "utilisation")
    said = next(name for name in names if getattr(request, name) is not None)
    return UseShown(
        tokens_per_day=use.tokens, prompt_tokens_per_day=use.tokens * use.prompt_ratio, prompt_ratio=use.prompt_ratio,
        said="tokens_per_day" if said == names[0] else "hours_per_day" if said == names[1] else "utilisation",
    )  # fmt: skip


def _terms(request: CostRequest, told: Told) -> Terms:
    given = request.electricity if request.electricity is not None else told.electricity
    return Terms(
        ELECTRICITY if given is None else given, request.years, request.resale, request.host_price, request.watts,
        request.power_share,
    )  # fmt: skip


def _check_resale(rigs: Sequence[RigShown], terms: Terms) -> None:
    """What sells for more than it cost makes tokens at less than nothing: a slip of the finger."""
    for rig in rigs:
        if rig.price and terms.resale > (paid := upfront(rig, rig.price, terms)):
            raise UserError(f"--resale {terms.resale:,.0f} is more than {rig.name} costs, {paid:,.0f}", "give less")


def _rented(desk: _Desk, use: Use, rigs: Sequence[RigShown]) -> Iterator[WayShown]:
    """What the user can rent; else the shipped rents that can do it, those of the devices at hand among them."""
    own_prices = [named_amount(text, "--rent") for text in (*desk.request.rent, *desk.told.rents)]
    for name, amount in own_prices:
        rig = desk.rig(name)
        price = PriceShown(amount=amount * rig.count, currency=desk.purse.currency, kind="yours")
        yield rent(rig, price, use, all_day=False)
        yield rent(rig, price, use, all_day=True)
    if not own_prices and desk.purse.currency == SHIPPED:
        yield from _shipped_rents(desk, use, {rig.device for rig in rigs})


def _shipped_rents(desk: _Desk, use: Use, at_hand: set[str]) -> Iterator[WayShown]:
    cheapest = {price.of: price for price in reversed(rents_of())}
    ways = [
        rent(desk.rig(name), shown(price, desk.purse.today), use, all_day=False) for name, price in cheapest.items()
    ]
    able = [way for way in ways if way.enough and way.rig and way.rig.fits == "whole"]
    able.sort(key=lambda way: (way.name not in at_hand, way.per_million or 0.0))
    for way in able[:_RENTS]:
        yield way
        if way.rig and way.price:
            yield rent(way.rig, way.price, use, all_day=True)


def _sold(desk: _Desk, use: Use) -> Iterator[WayShown]:
    """The user's APIs; else the shipped ones of this very model."""
    own_prices = [two_amounts(text) for text in (*desk.request.api, *desk.told.apis)]
    for n, (name, inward, outward) in enumerate(own_prices, 1):
        price = PriceShown(amount=outward, currency=desk.purse.currency, kind="yours")
        yield api(f"API {name or n}", price, inward, use)
    if not own_prices and desk.purse.currency == SHIPPED:
        for found in apis_of(desk.found.name):
            price = shown(found, desk.purse.today)
            price = msgspec.structs.replace(price, amount=found.output_usd)
            yield api(f"API {found.seller}", price, found.input_usd, use)
