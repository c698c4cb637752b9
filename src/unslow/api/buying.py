"""For who buys: devices side by side, what to choose, what it costs, what fits which memory."""

from collections.abc import Sequence
from typing import Any, Literal

from unslow.app.progress import Progress
from unslow.think.buy.choice_report import ChoiceReport
from unslow.think.buy.cost_report import CostReport
from unslow.think.buy.report import DevicesReport
from unslow.think.buy.tiers_report import TiersReport


def devices(  # noqa: PLR0913 (as many as the command has flags)
    names: Sequence[str] = (),
    *,
    model: str | None = None,
    quant: str | None = None,
    context: int | str = 8192,
    users: int = 1,
    prompt: int | str = 512,
    kv_type: str = "f16",
    all: bool = False,  # noqa: A002 (the flag's name)
    vendor: str | None = None,
    min_memory: str | None = None,
    sort: Literal["speed", "price", "value", "watts", "memory", "name"] | None = None,
    price: Sequence[str] = (),
    prices: str | None = None,
    currency: str | None = None,
    progress: Progress | None = None,
) -> DevicesReport:
    """Devices side by side: memory, bandwidth, price and watts; with a model also whether it fits and how fast it is.

    names: such as "RTX 3090", "2x RTX 5060 Ti 16GB", "DGX Spark", or "here" for this machine; empty for the usual ones
    model: a well-known name, a GGUF file or a stored model
    quant: for a name with no file; None for the published one, else Q4_K_M
    context: tokens of a conversation: 8192 or "128k"
    users: conversations at a time
    prompt: tokens of the prompt whose reading is predicted
    kv_type: of the cache's keys and values: "f16", "q8_0", "q4_0"
    all: every device of the catalogue
    vendor: of the catalogue only those of a maker, "nvidia", "amd", "apple" or "intel"
    min_memory: of the catalogue only those with so much memory: "24GB"
    sort: the order; None for that of the names
    price: your own prices, such as "RTX 3090=700"
    prices: a TOML file with your own prices
    currency: of your prices; shipped ones are in USD and count for no other; None for USD
    progress: is told what is being done; None for silence
    """
    flags: dict[str, Any] = dict(locals())
    from unslow.app.buy import DevicesRequest  # noqa: PLC0415 (imported when used)
    from unslow.app.buy import devices as answer  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    return answer(LiveSystem(), DevicesRequest.from_flags(_with_lists(flags)), progress)


def choose(  # noqa: PLR0913 (as many as the command has flags)
    model: str,
    *,
    budget: float | None = None,
    goal: float | str | None = None,
    context: int | str = 8192,
    users: int = 1,
    quant: str | None = None,
    quant_least: str = "Q4_K_M",
    prompt: int | str = 512,
    kv_type: str = "f16",
    have: str | None = None,
    among: Sequence[str] = (),
    partly: bool = False,
    host_price: float = 0.0,
    price: Sequence[str] = (),
    prices: str | None = None,
    currency: str | None = None,
    progress: Progress | None = None,
) -> ChoiceReport:
    """Which card, pair of cards or machine to buy for a model, with reasons, runners-up and what was refused.

    model: a well-known name, a GGUF file or a stored model
    budget: what it may cost; None for any price
    goal: the speed of each conversation, at the low end: 20 or "20 tok/s"; None for the fastest
    context: tokens of a conversation: 8192 or "128k"
    users: conversations at a time
    quant: this one and no other
    quant_least: the smallest quant that will do
    prompt: tokens of a usual prompt
    kv_type: of the cache's keys and values: "f16", "q8_0", "q4_0"
    have: a card that is there already: alone, and with one more beside it
    among: choose only among these devices, or those of a maker such as "apple"; empty for all
    partly: also what holds only a part of the model, the rest on the host
    host_price: what the computer around a card costs
    price: your own prices, such as "RTX 3090=700"
    prices: a TOML file with your own prices
    currency: of your prices; shipped ones are in USD and count for no other; None for USD
    progress: is told what is being done; None for silence
    """
    flags: dict[str, Any] = dict(locals())
    from unslow.app.buy import ChooseRequest  # noqa: PLC0415 (imported when used)
    from unslow.app.buy import choose as answer  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    return answer(LiveSystem(), ChooseRequest.from_flags(_with_lists(flags)), progress)


def cost(  # noqa: PLR0913 (as many as the command has flags)
    model: str,
    *,
    device: str | Sequence[str] = (),
    tokens_per_day: int | None = None,
    hours_per_day: float | None = None,
    utilisation: float | None = None,
    quant: str | None = None,
    context: int | str = 8192,
    users: int = 1,
    prompt: int | str = 512,
    kv_type: str = "f16",
    prompt_ratio: float = 3.0,
    electricity: float | None = None,
    years: float = 3.0,
    resale: float = 0.0,
    watts: float | None = None,
    power_share: float = 1.0,
    host_price: float = 0.0,
    rent: Sequence[str] = (),
    api: Sequence[str] = (),
    price: Sequence[str] = (),
    prices: str | None = None,
    currency: str | None = None,
    progress: Progress | None = None,
) -> CostReport:
    """What a million tokens cost on hardware of your own, rented, or from an API, and when owning pays.

    How much it is used has to be said in one of three ways: tokens_per_day, hours_per_day or utilisation.

    model: a well-known name, a GGUF file or a stored model
    device: what would be owned, such as "RTX 3090"; several as a list
    tokens_per_day: tokens that are generated on a usual day
    hours_per_day: hours of a usual day in which it generates
    utilisation: the share of all time in which it generates, from 0 to 1
    quant: for a name with no file; None for the published one, else Q4_K_M
    context: tokens of a conversation: 8192 or "128k"
    users: conversations at a time
    prompt: tokens of a usual prompt
    kv_type: of the cache's keys and values: "f16", "q8_0", "q4_0"
    prompt_ratio: tokens that are read for each that is generated
    electricity: the price of a kWh
    years: how long it is owned
    resale: what it is sold for in the end
    watts: what it was measured to draw; None for its rated power
    power_share: the share of the rated power that it draws
    host_price: what the computer around a card costs
    rent: prices per hour, such as "H100=2.5/h"
    api: prices per million tokens, read and written, such as "0.5/1.5"
    price: your own prices, such as "RTX 3090=700"
    prices: a TOML file with your own prices
    currency: of your prices; shipped ones are in USD and count for no other; None for USD
    progress: is told what is being done; None for silence
    """
    flags: dict[str, Any] = dict(locals())
    from unslow.app.buy import CostRequest  # noqa: PLC0415 (imported when used)
    from unslow.app.buy import cost as answer  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    flags["device"] = [device] if isinstance(device, str) else list(device)
    return answer(LiveSystem(), CostRequest.from_flags(_with_lists(flags)), progress)


def tiers(
    memory: str | None = None,
    *,
    unified: str | None = None,
    context: int | str = 8192,
    quant_least: str = "Q4_K_M",
    rows: int = 5,
    progress: Progress | None = None,
) -> TiersReport:
    """What can be run on how much memory: the largest well-known models that fit whole, and those that just don't.

    memory: of cards, in GB: "8,12,16,24"; None for the usual sizes
    unified: of machines whose GPU shares the host's memory, in GB: "64,128"; None for the usual sizes
    context: tokens of a conversation: 8192 or "128k"
    quant_least: the smallest quant that will do
    rows: how many models of each
    progress: is told what is being done; None for silence
    """
    flags: dict[str, Any] = dict(locals())
    from unslow.app.buy import TiersRequest  # noqa: PLC0415 (imported when used)
    from unslow.app.buy import tiers as answer  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    return answer(LiveSystem(), TiersRequest.from_flags(flags), progress)


def _with_lists(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags, several of a kind as a list: that is what the commands have."""
    return {name: list(value) if isinstance(value, tuple | list) else value for name, value in flags.items()}
