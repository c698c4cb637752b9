"""Answers `unslow devices`: any number of them side by side, in order, with what has to be said of them."""

from collections.abc import Callable, Iterator, Sequence
from math import inf

from unslow import __version__
from unslow.buy.report import KEEPS_MONTHS, SHIPPED, AskedShown, BuyerPrices, DevicesReport, RigShown
from unslow.buy.rigs import HERE, Rig, find_work, parse_rig, rate_rig, read_prices, rig_shown, rigs_of, this_machine
from unslow.catalog.devices import all_gpus
from unslow.commands._output import Progress
from unslow.commands.devices import DevicesRequest
from unslow.commands.predict import PredictRequest
from unslow.facts.errors import UserError
from unslow.facts.values import GB
from unslow.look.system import System
from unslow.think.memo import one_judgement
from unslow.think.speed.question import USUAL_HOST

_ORDERS: dict[str, Callable[[RigShown], tuple[float | str, ...]]] = {
    "speed": lambda rig: (-(rig.speed.decode_tokens_per_s.mid if rig.speed else 0.0),),
    "price": lambda rig: (rig.price.amount if rig.price else inf,),
    "value": lambda rig: (rig.price_per_token_per_s or inf,),
    "watts": lambda rig: (rig.tdp_w or inf,),
    "memory": lambda rig: (-(rig.memory_bytes or 0),),
    "name": lambda rig: (rig.vendor, rig.name),
}
_USUAL = ("RTX 5060 Ti 16GB", "RTX 3090", "RTX 4090", "RTX 5090", "RX 7900 XTX", "DGX Spark", "Strix Halo")
"""What is compared where nothing is named: what people ask about most, from small to large."""
NOTE_ON_JOULES = "TOK/J: tokens per joule at full TDP; measured values are higher"


@one_judgement()
def devices(system: System, request: DevicesRequest, progress: Progress | None = None) -> DevicesReport:
    """The devices that are named, or all; with a model also what they do with it."""
    prices, _ = read_prices(system, request)
    found, question, about = find_work(system, request) if request.model else (None, PredictRequest(), None)
    here = any(name.casefold() in HERE for name in request.names)
    shown, every = [this_machine(system, request, prices)] if here else [], _requested_rigs(request)
    for n, rig in enumerate(every):
        if progress and n % 16 == 0:
            what = f"predicting {len(every)} device{'s' * (len(every) != 1)}" if found else "reading the catalog"
            progress.step(what, n / len(every))
        answer = rate_rig(rig, found, question) if found else None
        shown.append(rig_shown(rig, prices, found.quant if found else "", answer))
    shared: tuple[str, ...] = ()
    if about and about.users > 1:
        shared = (f"tok/s is per request, with {about.users} concurrent requests; price and joules count all of them",)
    order = request.sort or ("" if request.names else "speed" if found else "name")
    return DevicesReport(
        unslow_version=__version__,
        asked=about,
        sorted_by=order,
        currency=prices.currency,
        catalogue_devices=len(list(rigs_of(all_gpus()))),
        devices=sort_rigs(shown, order),
        notes=(*work_notes(about), *shared, *notes_on(shown, prices, has_model=bool(found))),
    )


def _requested_rigs(request: DevicesRequest) -> list[Rig]:
    if request.names:
        return [parse_rig(name) for name in request.names if name.casefold() not in HERE]
    if not (request.all or request.vendor or request.min_memory):
        return [parse_rig(name) for name in _USUAL]
    vendor = (request.vendor or "").casefold()
    large = (rig for rig in rigs_of(all_gpus()) if rig.each_bytes >= request.min_memory)
    every = [rig for rig in large if vendor in ("", rig.device.vendor.casefold())]
    if not every:
        raise UserError("no device in the catalog matches", "try another --vendor or a smaller --min-memory")
    return every


def sort_rigs(rigs: Sequence[RigShown], order: str) -> tuple[RigShown, ...]:
    """By one of the orders, what is not known last; as they came without one."""
    return tuple(sorted(rigs, key=lambda rig: (*_ORDERS[order](rig), rig.name)) if order else rigs)


def notes_on(rigs: Sequence[RigShown], prices: BuyerPrices, *, has_model: bool) -> tuple[str, ...]:
    """What was assumed, and what to make of the prices."""
    notes = list(price_notes(rigs, prices))
    if has_model and any(rig.fits == "partly" for rig in rigs):
        host = float(USUAL_HOST.bytes_per_s) / GB
        notes.insert(0, f"partly: the rest runs from host memory (assumed {host:.0f} GB/s), which sets the speed")
    if has_model and any(rig.tokens_per_joule_by_tdp for rig in rigs):
        notes.append(NOTE_ON_JOULES)
    return tuple(notes)


def work_notes(asked: AskedShown | None) -> Iterator[str]:
    """What has to be said of the work itself."""
    if asked and asked.stands_for:
        yield f"{asked.stands_for} has the same shape as {asked.model}, which is used here"
    if asked and asked.estimated_as:
        yield f"{asked.quant} is estimated from {asked.estimated_as}"
    if asked and 0 < asked.context_trained < asked.context:
        lost = "longer contexts lose quality unless its positions are scaled (YaRN)"
        yield f"{asked.model} was trained for {asked.context_trained:,} tokens: {lost}"


def price_notes(rigs: Sequence[RigShown], prices: BuyerPrices) -> Iterator[str]:
    """What to make of the prices that are shown."""
    shown = [rig.price for rig in rigs if rig.price]
    if any(p.kind == "launch" for p in shown):
        checked = "" if all(p.checked for p in shown if p.kind == "launch") else " (not verified)"
        name = next((rig.device for rig in rigs if rig.price and rig.price.kind == "launch"), "RTX 3090")
        yield f'launch: price at launch{checked}; override with --price "{name}=AMOUNT"'
    for price in {p.source: p for p in shown if p.source and p.kind != "launch"}.values():
        old = f", more than {KEEPS_MONTHS} months ago" if price.old else ""
        yield f"{price.kind} price seen {price.date}{old}: {price.source}"
    if prices.currency != SHIPPED:
        yield f"built-in prices are in {SHIPPED} and are not converted to {prices.currency}: only yours are shown"
    elif any(rig.price is None for rig in rigs):
        yield "?: no known price"
