"""Answers `unslow cost`: what tokens cost on a device with its electricity, on a rented one, or from an API."""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Literal, NamedTuple

import msgspec

from unslow import __version__
from unslow.buy import report, rigs
from unslow.buy.devices import work_notes
from unslow.buy.report import SHIPPED, AskedShown, BuyerPrices, PriceShown, RigShown, SpeedShown, shown_price
from unslow.catalog.prices import prices_of
from unslow.commands._output import Progress, Silent
from unslow.commands.cost import CostRequest
from unslow.commands.models.find import FoundModel
from unslow.commands.predict import PredictRequest
from unslow.facts.errors import UserError
from unslow.look.system import System
from unslow.think.memo import one_judgement

COST_SCHEMA = "unslow.cost/1"
ELECTRICITY = 0.30  # Of a kWh, in whatever currency, where nothing is said: the report says that it was assumed
_RENTS = 3  # How many of the shipped rents that can do it are shown, the cheapest first
_LONG_MONTHS = 36  # From there on people count years
_DAY_S = 86_400.0
_HOUR_S = 3600.0
MONTH_DAYS = 365.25 / 12
MILLION = 1e6
UseSaid = Literal["tokens_per_day", "hours_per_day", "utilisation"]
How = Literal["own", "rent", "rent all day", "api"]


class UseShown(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per day."""

    tokens_per_day: float  # Generated ones
    prompt_tokens_per_day: float
    prompt_ratio: float  # Prompt tokens per generated token
    said: UseSaid


class WayShown(msgspec.Struct, frozen=True, kw_only=True):
    """One way to get the tokens, with its cost."""

    how: How
    name: str
    rig: RigShown | None = None  # What runs the model; None for an API
    price: PriceShown | None = None  # To buy, per hour, or per million generated tokens; None if unknown
    input_price: float | None = None  # Per million prompt tokens, of an API
    per_million: float | None = None  # Cost per million generated tokens with their prompts; None if unknown
    per_month: float | None = None
    capital_per_month: float | None = None  # Price minus resale, spread over the years
    power_per_month: float | None = None
    watts: float | None = None  # Under load
    busy_share: float | None = None  # Share of the day; above 1 the device is too slow
    most_tokens_per_day: float | None = None  # Capacity per day
    enough: bool | None = None  # Whether the capacity suffices; None if unknown
    reason: str = ""


class BreakEvenShown(msgspec.Struct, frozen=True, kw_only=True):
    """When owning becomes cheaper than another way."""

    own: str
    against: str
    months: float | None
    """None where it never does: the other way costs less than the electricity. It may be more than the years of use."""


class CostReport(msgspec.Struct, frozen=True, kw_only=True):
    """Own against rent against API."""

    schema: str = COST_SCHEMA
    unslow_version: str
    asked: AskedShown
    use: UseShown
    currency: str
    electricity_per_kwh: float
    years: float
    ways: tuple[WayShown, ...] = ()  # Cheapest first; too slow or unknown last
    break_even: tuple[BreakEvenShown, ...] = ()
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Terms(NamedTuple):
    """What owning depends on beside the device."""

    electricity: float  # Of a kWh
    years: float
    resale: float = 0.0  # What it sells for at the end
    host_price: float = 0.0
    watts: float | None = None  # Measured while it works; None for a share of the TDP
    power_share: float = 1.0


class _CostInputs(NamedTuple):
    system: System
    request: CostRequest
    prices_file: rigs.PricesFile
    prices: BuyerPrices
    found: FoundModel
    question: PredictRequest

    def rig(self, name: str) -> RigShown:
        """A device by name with its speed."""
        if name.casefold() in rigs.HERE:
            return rigs.this_machine(self.system, self.request, self.prices)
        rig = rigs.parse_rig(name)
        return rigs.rig_shown(rig, self.prices, self.found.quant, rigs.rate_rig(rig, self.found, self.question))


@one_judgement()
def cost(system: System, request: CostRequest, progress: Progress | None = None) -> CostReport:
    """What a million tokens cost with each device, rented or bought, and when owning has paid."""
    prices, told = rigs.read_prices(system, request)
    found, question, asked = rigs.find_work(system, request)
    inputs = _CostInputs(system, request, told, prices, found, question)
    (progress or Silent()).step("predicting", 0.0)
    devices = [inputs.rig(name) for name in request.device]
    use = _requested_use(request, devices)
    given = request.electricity if request.electricity is not None else told.electricity
    terms = Terms(
        ELECTRICITY if given is None else given, request.years, request.resale, request.host_price, request.watts,
        request.power_share,
    )  # fmt: skip
    for rig in devices:  # what sells for more than it cost makes tokens at less than nothing: a slip of the finger
        if rig.price and terms.resale > (paid := purchase_cost(rig, rig.price, terms)):
            most = f"at most {paid:,.0f}, the price of {rig.name} (got {terms.resale:,.0f})"
            raise UserError(f"--resale must be {most}", "it is what the device sells for at the end")
    owned = [own_way(rig, rig.price, use, terms) for rig in devices]
    others = [*_rent_ways(inputs, use, devices), *_api_ways(inputs, use)]
    pairs = [break_even(mine, other, terms) for mine in owned for other in alternatives(others)]
    said = request.electricity is not None or told.electricity is not None
    return CostReport(
        unslow_version=__version__,
        asked=asked,
        use=use,
        currency=prices.currency,
        electricity_per_kwh=terms.electricity,
        years=terms.years,
        ways=cheapest_first([*owned, *others]),
        break_even=tuple(pair for pair in pairs if pair),
        assumptions=tuple(
            assumptions(terms, use, prices.currency, users=question.batch, electricity_said=said, has_own=bool(owned))
        ),
        notes=(*work_notes(asked), *dict.fromkeys(notes_on([*owned, *others], prices))),
    )


def _requested_use(request: CostRequest, devices: Sequence[RigShown]) -> UseShown:
    """Tokens of a day; hours and shares are those of the first device that can run the model."""
    tokens: float | None = request.tokens_per_day
    said: UseSaid = "tokens_per_day"
    if tokens is None:
        hours, said = request.hours_per_day, "hours_per_day"
        if hours is None:
            hours, said = 24 * (request.utilisation or 0.0), "utilisation"
        if not hours:
            raise UserError("--hours-per-day and --utilisation must be above 0", "give --tokens-per-day instead")
        speed = next((rig.speed for rig in devices if rig.speed and rig.fits != "no"), None)
        if speed is None:
            hint = 'name one, such as --device "RTX 3090", or --tokens-per-day'
            raise UserError("no --device can run the model", hint)
        tokens = hours * _HOUR_S / seconds_per_token(speed, request.prompt_ratio)
    ratio = request.prompt_ratio
    return UseShown(tokens_per_day=tokens, prompt_tokens_per_day=tokens * ratio, prompt_ratio=ratio, said=said)


def own_way(rig: RigShown, price: PriceShown | None, use: UseShown, terms: Terms) -> WayShown:
    """With a device of one's own."""
    if rig.speed is None or rig.fits == "no":
        return WayShown(how="own", name=rig.name, rig=rig, price=price, reason=rig.reason or "does not fit")
    busy = busy_share(rig.speed, use)
    watts = terms.watts if terms.watts is not None else (rig.tdp_w or 0.0) * terms.power_share or None
    capital = (purchase_cost(rig, price, terms) - terms.resale) / (12 * terms.years) if price else None
    power = None if watts is None else min(busy, 1.0) * 24 * MONTH_DAYS * watts / 1000 * terms.electricity
    month = None if capital is None or power is None else capital + power
    missing = "power draw unknown (--watts)" if power is None else ""
    if price is None:
        name, paid = ("here", " (0 if already paid for)") if rig.name.startswith("here") else (rig.device, "")
        missing = f'price unknown: --price "{name}=AMOUNT"{paid}'
    way = _device_way("own", rig, price, use, month)
    said = "; ".join(text for text in (way.reason, missing) if text)
    return msgspec.structs.replace(way, capital_per_month=capital, power_per_month=power, watts=watts, reason=said)


def purchase_cost(rig: RigShown, price: PriceShown, terms: Terms) -> float:
    """What is paid on the first day: the devices, and a computer around cards where one is counted."""
    return price.amount + (terms.host_price if rig.kind == "gpu" else 0.0)


def _rent_ways(inputs: _CostInputs, use: UseShown, devices: Sequence[RigShown]) -> Iterator[WayShown]:
    """What the user can rent; else the shipped rents that can do it, those of the devices at hand among them."""
    own_prices = [rigs.named_amount(text, "--rent") for text in (*inputs.request.rent, *inputs.prices_file.rents)]
    for name, amount in own_prices:
        rig = inputs.rig(name)
        price = PriceShown(amount=amount * rig.count, currency=inputs.prices.currency, kind="yours")
        yield rent_way(rig, price, use, all_day=False)
        yield rent_way(rig, price, use, all_day=True)
    if not own_prices and inputs.prices.currency == SHIPPED:
        at_hand = {rig.device for rig in devices}
        cheapest = {price.of: price for price in reversed(prices_of("rent"))}
        shown = ((inputs.rig(name), shown_price(price, inputs.prices.today)) for name, price in cheapest.items())
        ways = [rent_way(rig, price, use, all_day=False) for rig, price in shown]
        able = [way for way in ways if way.enough and way.rig and way.rig.fits == "whole"]
        able.sort(key=lambda way: (way.name not in at_hand, way.per_million or 0.0))
        for way in able[:_RENTS]:
            yield way
            if way.rig and way.price:
                yield rent_way(way.rig, way.price, use, all_day=True)


def rent_way(rig: RigShown, price: PriceShown, use: UseShown, *, all_day: bool) -> WayShown:
    """With a rented device, by the hour while it works, or all day."""
    how: How = "rent all day" if all_day else "rent"
    if rig.speed is None or rig.fits == "no":
        return WayShown(how=how, name=rig.name, rig=rig, price=price, reason=rig.reason or "does not fit")
    hours = 24.0 if all_day else 24 * min(busy_share(rig.speed, use), 1.0)
    return _device_way(how, rig, price, use, hours * MONTH_DAYS * price.amount)


def _api_ways(inputs: _CostInputs, use: UseShown) -> Iterator[WayShown]:
    """The user's APIs; else the shipped ones of this very model."""
    own_prices = [rigs.api_amounts(text) for text in (*inputs.request.api, *inputs.prices_file.apis)]
    for n, (name, inward, outward) in enumerate(own_prices, 1):
        price = PriceShown(amount=outward, currency=inputs.prices.currency, kind="yours")
        yield api_way(f"API {name or n}", price, inward, use)
    if not own_prices and inputs.prices.currency == SHIPPED:
        for found in prices_of("api", inputs.found.name):
            price = shown_price(found, inputs.prices.today)
            price = msgspec.structs.replace(price, amount=found.output_usd)
            yield api_way(f"API {found.seller}", price, found.input_usd, use)


def api_way(name: str, price: PriceShown, input_price: float, use: UseShown) -> WayShown:
    """From somebody who sells tokens."""
    each = price.amount + use.prompt_ratio * input_price
    return WayShown(
        how="api", name=name, price=price, input_price=input_price, per_million=each,
        per_month=each * (use.tokens_per_day * MONTH_DAYS) / MILLION, enough=True,
    )  # fmt: skip


def _device_way(how: How, rig: RigShown, price: PriceShown | None, use: UseShown, per_month: float | None) -> WayShown:
    """A device that runs the model: what it can make, and what a million tokens cost of those that it does make."""
    busy = busy_share(rig.speed, use) if rig.speed else 0.0
    most = use.tokens_per_day / busy if busy else 0.0
    made = min(use.tokens_per_day, most) * MONTH_DAYS
    # What has to be said of it
    less = f"at most {most:,.0f} tokens a day: {ceil(busy):,} of them would be needed" if busy > 1 else ""
    part = "only part of the model and its KV cache fits, the rest runs from host memory" * (rig.fits == "partly")
    return WayShown(
        how=how,
        name=rig.name,
        rig=rig,
        price=price,
        per_million=None if per_month is None or not made else per_month / made * MILLION,
        per_month=per_month,
        busy_share=busy,
        most_tokens_per_day=most,
        enough=busy <= 1,
        reason="; ".join(text for text in (less, part) if text),
    )


def busy_share(speed: SpeedShown, use: UseShown) -> float:
    """Of the day; above 1 where a day is too short."""
    return use.tokens_per_day * seconds_per_token(speed, use.prompt_ratio) / _DAY_S


def seconds_per_token(speed: SpeedShown, prompt_ratio: float) -> float:
    """Of work for one generated token and the prompt tokens that go with it, with all conversations at once."""
    return 1 / speed.decode_tokens_per_s.mid + prompt_ratio / speed.prefill_tokens_per_s.mid


def break_even(mine: WayShown, other: WayShown, terms: Terms) -> BreakEvenShown | None:
    """When a device has paid for itself against another way; None where either is too slow or unknown."""
    if mine.rig is None or mine.price is None or mine.power_per_month is None or other.per_month is None:
        return None
    if mine.enough is not True or other.enough is not True:
        return None
    saved = other.per_month - mine.power_per_month  # what it sells for counts as if it were sold on that day
    months = (purchase_cost(mine.rig, mine.price, terms) - terms.resale) / saved if saved > 0 else None
    against = f"{other.name}, {other.how}" if other.how != "api" else other.name
    return BreakEvenShown(own=mine.name, against=against, months=months)


def alternatives(others: list[WayShown]) -> list[WayShown]:
    """What owning is held against: the cheapest of each way that can do it, and every API."""
    able = [way for way in cheapest_first(others) if way.enough and way.per_month is not None]
    first = {way.how: way for way in reversed(able)}
    return [way for way in able if way.how == "api" or first[way.how] is way]


def cheapest_first(ways: list[WayShown]) -> tuple[WayShown, ...]:
    """What can do it by what it costs, then the rest."""
    by_cost = sorted(ways, key=lambda way: (way.per_million is None, way.per_million or 0.0, way.name))
    return tuple(sorted(by_cost, key=lambda way: way.enough is not True))


def break_even_words(pair: BreakEvenShown, years: float) -> str:
    """When owning has paid for itself, in words; not after the years in which it is used."""
    if pair.months is None:
        return f"never breaks even against {pair.against}, which costs less than its electricity"
    after = f"{pair.months / 12:,.1f} years" if pair.months >= _LONG_MONTHS else f"{pair.months:,.1f} months"
    if pair.months > 12 * years:
        return f"does not break even within {years:g} years against {pair.against}: it would take {after}"
    return f"breaks even after {after} against {pair.against}"


def assumptions(
    terms: Terms, use: UseShown, currency: str, *, users: int, electricity_said: bool, has_own: bool
) -> Iterator[str]:
    """What was taken for granted, and the flag that says it better."""
    yield f"{use.prompt_ratio:g} prompt tokens per generated token (--prompt-ratio)"
    if users > 1:
        yield f"{users} concurrent requests at all times (--users)"
    else:
        yield "one request at a time; concurrent requests generate more tokens per hour (--users)"
    if not has_own:
        return
    if not electricity_said:
        yield f"electricity assumed at {terms.electricity:g} {currency} per kWh (--electricity)"
    if terms.watts is not None:
        yield f"power draw {terms.watts:,.0f} W under load, as you measured it; nothing else is counted"
    else:
        share = "its full TDP" if terms.power_share == 1 else f"{terms.power_share:.0%} of its TDP"
        yield f"the device draws {share} under load and nothing while idle; the rest is not counted (--watts)"
    sells = f"then sold for {terms.resale:,.0f} {currency}" if terms.resale else "then worth nothing (--resale)"
    yield f"used for {terms.years:g} years, {sells}"
    if not terms.host_price:
        yield "a card goes into an existing computer (--host-price)"


def notes_on(ways: Sequence[WayShown], prices: BuyerPrices) -> Iterator[str]:
    """Where the prices come from, each source as often as a way has it, and what is missing."""
    yield "speeds are the middle of the predicted interval, which `unslow devices` shows"
    for way in ways:
        price = way.price
        if price is None or price.kind == "yours":
            continue
        old = f", more than {report.KEEPS_MONTHS} months ago" if price.old and price.kind != "launch" else ""
        if price.kind == "launch":
            unchecked, name = "" if price.checked else " (not verified)", way.rig.device if way.rig else way.name
            yield f'{name}: price at launch in {price.date}{unchecked}; override with --price "{name}=AMOUNT"'
        else:
            yield f"{price.kind} {price.seller} seen {price.date}{old}: {price.source}"
    if prices.currency != SHIPPED:
        yield f"built-in prices are in {SHIPPED} and are not converted to {prices.currency}: give --rent and --api"
        return
    if not any(way.how == "api" for way in ways):
        yield 'no built-in API price for this model: give one with --api "0.5/1.5 per M"'
    if not any(way.how == "rent" for way in ways):
        yield 'no built-in rental offer runs this on one device: give one with --rent "2x H100 SXM=2.5/h"'
