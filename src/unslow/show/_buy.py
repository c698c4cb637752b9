"""What the answers to a buyer have in common: prices, speeds and tables as a person reads them."""

from unslow.show._units import GIB, rate, size
from unslow.think.buy.report import AskedShown, PriceShown, RigShown
from unslow.think.speed.report import RateShown

_TEN = 10
_HUNDRED = 100


def money(amount: float | None) -> str:
    """An amount with as many digits as are worth reading."""
    if amount is None:
        return "?"
    if amount >= _HUNDRED or not amount:
        return f"{amount:,.0f}"
    return f"{amount:,.1f}" if amount >= _TEN else f"{amount:,.2f}"


def price(found: PriceShown | None, unit: str = "") -> str:
    """A price with what kind it is; a star where it was seen long ago."""
    if found is None:
        return "?"
    star = "*" if found.old and found.kind not in ("launch", "yours") else ""
    return f"{money(found.amount)}{unit} {found.kind}{star}"


def speed(found: RateShown | None) -> tuple[str, str]:
    """The middle, and the ends beside it."""
    return (rate(found.mid), f"{rate(found.low)}-{rate(found.high)}") if found else ("-", "")


def memory(count: int | None) -> str:
    """As memory is sold."""
    return "?" if not count else f"{count / GIB:,.0f}" if count >= _HUNDRED * GIB else f"{count / GIB:.3g}"


def work(asked: AskedShown) -> str:
    """What was asked of every device."""
    users = f", {asked.users} conversations at once" if asked.users > 1 else ""
    kv = "" if asked.kv_type == "f16" else f", {asked.kv_type} KV cache"
    return f"{size(asked.weights_bytes)} of weights, {asked.context:,} tokens in the context{users}{kv}"


def fits(rig: RigShown) -> str:
    """How much of the model it holds, in a word or two."""
    layers = rig.speed.gpu_layers if rig.speed else None
    if rig.fits == "partly" and layers is not None:
        return f"{layers} layers"
    return {"whole": "whole", "no": "no", "unknown": "?", "partly": "partly"}[rig.fits]
