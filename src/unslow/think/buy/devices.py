"""The order of compared devices, and what has to be said of them."""

from collections.abc import Callable, Iterator, Sequence
from math import inf

from unslow.facts.units import GB
from unslow.think.buy.prices import KEEPS_MONTHS, SHIPPED, Purse
from unslow.think.buy.report import AskedShown, RigShown
from unslow.think.speed.chips import USUAL_HOST

_ORDERS: dict[str, Callable[[RigShown], tuple[float | str, ...]]] = {
    "speed": lambda rig: (-(rig.speed.decode_tokens_per_s.mid if rig.speed else 0.0),),
    "price": lambda rig: (rig.price.amount if rig.price else inf,),
    "value": lambda rig: (rig.price_per_token_per_s or inf,),
    "watts": lambda rig: (rig.tdp_w or inf,),
    "memory": lambda rig: (-(rig.memory_bytes or 0),),
    "name": lambda rig: (rig.vendor, rig.name),
}


NOTE_ON_JOULES = "TOK/J is tokens per joule by TDP, as if all of it were drawn: measured ones are higher"


def ordered(rigs: Sequence[RigShown], order: str) -> tuple[RigShown, ...]:
    """By one of the orders, what is not known last; as they came without one."""
    if not order:
        return tuple(rigs)
    key = _ORDERS[order]
    return tuple(sorted(rigs, key=lambda rig: (*key(rig), rig.name)))


def notes_on(rigs: Sequence[RigShown], purse: Purse, *, has_model: bool) -> tuple[str, ...]:
    """What was assumed, and what to make of the prices."""
    return tuple(_notes(rigs, purse, has_model=has_model))


def _notes(rigs: Sequence[RigShown], purse: Purse, *, has_model: bool) -> Iterator[str]:
    if has_model and any(rig.fits == "partly" for rig in rigs):
        host = float(USUAL_HOST.bytes_per_s) / GB
        yield f"partly: the rest lies on a host whose memory is taken to deliver {host:.0f} GB/s, which sets the speed"
    yield from price_notes(rigs, purse)
    if has_model and any(rig.tokens_per_joule_by_tdp for rig in rigs):
        yield NOTE_ON_JOULES


def work_notes(asked: AskedShown | None) -> Iterator[str]:
    """What has to be said of the work itself."""
    if asked and asked.stands_for:
        yield f"{asked.stands_for} has the shape of {asked.model}: computed with that"
    if asked and asked.estimated_as:
        yield f"{asked.quant} is an estimate by {asked.estimated_as}"
    if asked and 0 < asked.context_trained < asked.context:
        yield (
            f"{asked.model} was trained for {asked.context_trained:,} tokens: beyond them it answers badly, unless its "
            "positions are stretched (YaRN)"
        )


def shared_notes(asked: AskedShown | None) -> Iterator[str]:
    """Which numbers are of one conversation, and which of all."""
    if asked and asked.users > 1:
        yield f"tok/s are those of each of {asked.users} conversations; price and joules count all of them together"


def price_notes(rigs: Sequence[RigShown], purse: Purse) -> Iterator[str]:
    """What to make of the prices that are shown."""
    prices = [rig.price for rig in rigs if rig.price]
    if any(p.kind == "launch" for p in prices):
        checked = "" if all(p.checked for p in prices if p.kind == "launch") else ", which nobody checked"
        yield f'launch: what the maker asked in that year{checked}; yours counts: --price "{_example(rigs)}=AMOUNT"'
    for price in {p.source: p for p in prices if p.source and p.kind != "launch"}.values():
        old = f", more than {KEEPS_MONTHS} months ago" if price.old else ""
        yield f"{price.kind} price seen {price.date}{old}: {price.source}"
    if purse.currency != SHIPPED:
        yield f"shipped prices are in {SHIPPED} and are not turned into {purse.currency}: only yours are shown"
    elif any(rig.price is None for rig in rigs):
        yield "no price is known where none is shown"


def _example(rigs: Sequence[RigShown]) -> str:
    return next((rig.device for rig in rigs if rig.price and rig.price.kind == "launch"), "RTX 3090")
