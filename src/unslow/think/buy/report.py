"""The parts that the buyer's answers share, and the answer of `unslow devices`."""

from typing import Literal

from unslow.think.speed.report import RateShown, Shown

DEVICES_SCHEMA = "unslow.devices/1"
Fits = Literal["whole", "partly", "no", "unknown"]


class PriceShown(Shown, frozen=True, kw_only=True):
    """A price, and how far it can be trusted."""

    amount: float
    currency: str
    kind: Literal["yours", "street", "used", "launch", "rent", "api"]
    date: str = ""
    """When it was seen; the year of a launch price."""
    source: str = ""
    seller: str = ""
    old: bool = False
    """Whether it was seen longer ago than prices keep."""
    checked: bool = True
    """Whether its source was checked; no launch price of the catalogue is yet."""


class SpeedShown(Shown, frozen=True, kw_only=True):
    """What a device gives with a model, each with the ends between which four of five measurements lie."""

    decode_tokens_per_s: RateShown
    """Of all conversations together."""
    each_tokens_per_s: RateShown
    """Of one of them."""
    prefill_tokens_per_s: RateShown
    first_token_s: RateShown
    gpu_layers: int | None = None
    """Layers that find room on the GPUs, the output counted as one; None for all."""
    experts_on_cpu: int = 0
    """Of how many layers the experts stay on the host."""
    backend: str = ""
    """What it was predicted with: cuda, rocm, metal, vulkan or cpu."""


class RigShown(Shown, frozen=True, kw_only=True):
    """One or several devices of a kind, what they are, and what they do with the model."""

    name: str
    count: int = 1
    device: str
    """As the catalogue names it."""
    vendor: str
    kind: str
    year: int | None
    memory_bytes: int | None
    """Of all of them together; None where it is not known."""
    bytes_per_s: float | None
    """Of one."""
    tdp_w: float | None
    """Of all of them together."""
    price: PriceShown | None = None
    """Of all of them together."""
    quant: str = ""
    fits: Fits = "unknown"
    speed: SpeedShown | None = None
    price_per_token_per_s: float | None = None
    tokens_per_joule_by_tdp: float | None = None
    """As if it drew its whole TDP: a lower bound where it draws less."""
    reason: str = ""
    """Why there is no speed."""
    notes: tuple[str, ...] = ()


class AskedShown(Shown, frozen=True, kw_only=True):
    """What was asked of every device."""

    model: str
    quant: str
    parameters: int
    weights_bytes: int
    context: int
    users: int
    prompt_tokens: int
    kv_type: str = "f16"
    context_trained: int = 0
    """What the model was trained for; 0 where that is not known."""
    stands_for: str = ""
    """The model that was named, where this one of the same shape was computed."""
    estimated_as: str = ""
    """The mix that stands for a quant whose tensors do not follow from its name."""


class DevicesReport(Shown, frozen=True, kw_only=True):
    """Devices side by side."""

    schema: str = DEVICES_SCHEMA
    unslow_version: str
    asked: AskedShown | None = None
    sorted_by: str = ""
    currency: str = "USD"
    catalogue_devices: int | None = None
    """How many there are to compare, with `--all`."""
    devices: tuple[RigShown, ...] = ()
    notes: tuple[str, ...] = ()
