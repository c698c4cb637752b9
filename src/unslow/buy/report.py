"""The parts that the buyer's answers share, prices with their date among them, and the answer of `unslow devices`."""

import re
from typing import Literal, NamedTuple

import msgspec

from unslow.catalog.devices import Device
from unslow.catalog.prices import Price, shop_price
from unslow.think.speed.report import RateShown

DEVICES_SCHEMA = "unslow.devices/1"
KEEPS_MONTHS = 6  # Prices of hardware move by tens of percent within half a year: older ones are marked
SOLD_YEARS = 3  # A maker's first price says little of a device that came out longer ago: few sell it new
SHIPPED = "USD"  # The currency of every shipped price
_DAY = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d))?")
Fits = Literal["whole", "partly", "no", "unknown"]


class PriceShown(msgspec.Struct, frozen=True, kw_only=True):
    """A price with its source and age."""

    amount: float
    currency: str
    kind: Literal["yours", "street", "used", "launch", "rent", "api"]
    date: str = ""  # When it was seen; the year of a launch price
    source: str = ""
    seller: str = ""
    old: bool = False  # Whether it is too old to rely on
    checked: bool = True  # Whether its source was verified; launch prices are not yet


class SpeedShown(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted speeds of a device with a model, each with its 80 % interval."""

    decode_tokens_per_s: RateShown  # Of all concurrent requests together
    each_tokens_per_s: RateShown  # Of one request
    prefill_tokens_per_s: RateShown
    first_token_s: RateShown
    gpu_layers: int | None = None  # GPU layers, the output counted as one; None for all
    experts_on_cpu: int = 0  # Layers whose experts stay in host memory
    backend: str = ""  # Backend of the prediction: cuda, rocm, metal, vulkan or cpu


class RigShown(msgspec.Struct, frozen=True, kw_only=True):
    """One or several devices of one model, with their facts and their speed."""

    name: str
    count: int = 1
    device: str  # As the catalog names it
    vendor: str
    kind: str
    year: int | None
    memory_bytes: int | None  # Total; None if unknown
    bytes_per_s: float | None  # Of one device
    tdp_w: float | None  # Total
    price: PriceShown | None = None  # Total
    quant: str = ""
    fits: Fits = "unknown"
    speed: SpeedShown | None = None
    price_per_token_per_s: float | None = None
    tokens_per_joule_by_tdp: float | None = None  # At full TDP: a lower bound where it draws less
    reason: str = ""  # Why there is no speed
    notes: tuple[str, ...] = ()


class AskedShown(msgspec.Struct, frozen=True, kw_only=True):
    """The workload that every device is rated with."""

    model: str
    quant: str
    parameters: int
    weights_bytes: int
    context: int
    users: int
    prompt_tokens: int
    kv_type: str = "f16"
    context_trained: int = 0  # Trained context length of the model; 0 if unknown
    stands_for: str = ""  # The requested model, where this one of the same shape was used
    estimated_as: str = ""  # The mix used for a quant whose tensor types are unknown


class DevicesReport(msgspec.Struct, frozen=True, kw_only=True):
    """Devices side by side."""

    schema: str = DEVICES_SCHEMA
    unslow_version: str
    asked: AskedShown | None = None
    sorted_by: str = ""
    currency: str = "USD"
    catalogue_devices: int | None = None  # Devices in the catalog, all listed with `--all`
    devices: tuple[RigShown, ...] = ()
    notes: tuple[str, ...] = ()


class BuyerPrices(NamedTuple):
    """The buyer's own prices by the name of a rig or of a device, their currency, and the day."""

    own: dict[str, float]
    currency: str = SHIPPED
    today: str = ""

    def of(self, device: Device, label: str = "", *, smallest: bool = True, count: int = 1) -> PriceShown | None:
        """The price of so many devices; None where none is known in that currency.

        `label` is the device with its size of memory, where it is sold with several: a shipped price is that of the
        `smallest`.
        """
        shown = None
        own = [key for name in (label, device.name, *device.also) if name and (key := price_key(name)) in self.own]
        if own:
            shown = PriceShown(amount=self.own[own[0]], currency=self.currency, kind="yours")
        elif self.currency == SHIPPED and smallest and (found := shop_price(device)):
            shown = shown_price(found, self.today)
        return msgspec.structs.replace(shown, amount=shown.amount * count) if shown else None

    def is_buyable(self, device: Device, price: PriceShown | None) -> bool:
        """Whether the price can be held against a budget: a launch price only of what is still sold."""
        if price is None or price.kind != "launch":
            return price is not None
        return bool(self.today) and device.year >= int(self.today[:4]) - SOLD_YEARS


def price_key(name: str) -> str:
    """A name as prices are looked up by."""
    return "".join(letter for letter in name.lower() if letter.isalnum() or letter == "+")


def shown_price(price: Price, today: str) -> PriceShown:
    """A shipped price, marked where it is old."""
    old, checked = is_old(price.date, today), True
    if price.kind == "launch":
        years = int(today[:4]) - int(price.date) if today[:4].isdecimal() and price.date.isdecimal() else 0
        old, checked = years > 1, not price.source.startswith("unverified")
    return PriceShown(
        amount=price.usd, currency=SHIPPED, kind=price.kind, date=price.date, source=price.source,
        seller=price.seller, old=old, checked=checked,
    )  # fmt: skip


def is_old(day: str, today: str) -> bool:
    """Whether a day, or the first of a month, is longer ago than prices keep."""
    before, now = (_DAY.fullmatch(text[:10]) for text in (day, today))
    if not before or not now:
        return False
    months = 12 * (int(now[1]) - int(before[1])) + int(now[2]) - int(before[2])
    months -= (now[3] or "01") < (before[3] or "01")
    return months >= KEEPS_MONTHS
