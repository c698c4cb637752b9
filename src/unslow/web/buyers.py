"""The buyer's questions: which devices, which one to choose, own or rent, what fits which memory."""

from collections.abc import Callable
from typing import Any

from unslow.web.desk import Desk
from unslow.web.endpoint import Endpoint, Question
from unslow.web.parameters import Parameter

_MODEL = Parameter("model", "a well-known name such as qwen3-8b, or a GGUF file", needed=True)
_WORK = (
    Parameter("quant", "Q4_K_M; else the usual one"),
    Parameter("context", "tokens of context: 8192 or 32k", "count"),
    Parameter("users", "conversations at once", "count"),
    Parameter("prompt", "tokens of a usual prompt", "count"),
    Parameter("kv_type", "of the cache: f16, q8_0"),
)
_PRICES = (
    Parameter("price", "your own prices: RTX 3090=700, RTX 4090=1600", "names"),
    Parameter("currency", "how your prices are labelled"),
)
DEVICES = (
    Parameter("device", "names, with commas between: RTX 4090, 2x RTX 3090, here", "names", "names"),
    _MODEL._replace(needed=False),
    *_WORK,
    Parameter("all", "every device of the catalogue", "switch"),
    Parameter("vendor", "only of this maker"),
    Parameter("min_memory", "only with so much: 16GB"),
    Parameter("sort", "the order", choices=("speed", "price", "value", "watts", "memory", "name")),
    *_PRICES,
)
CHOOSE = (
    _MODEL,
    *_WORK,
    Parameter("quant_least", "the smallest quant that is good enough: Q4_K_M"),
    Parameter("budget", "what may be spent"),
    Parameter("goal", "tokens per second that one conversation should get"),
    Parameter("have", "a card that is there already: RTX 3060"),
    Parameter("partly", "also what fits in part only", "switch"),
    Parameter("host_price", "of the computer around a card"),
    *_PRICES,
)
COST = (
    _MODEL,
    Parameter("device", "names, with commas between", "names"),
    *_WORK,
    Parameter("tokens_per_day", "tokens that are written a day", "count"),
    Parameter("hours_per_day", "or hours of work a day"),
    Parameter("utilisation", "or the share of the time that it works"),
    Parameter("prompt_ratio", "prompt tokens for each token written"),
    Parameter("electricity", "price of a kWh"),
    Parameter("years", "how long it is used"),
    Parameter("resale", "what it brings in the end"),
    Parameter("watts", "measured draw under load"),
    Parameter("power_share", "share of the TDP that it draws"),
    Parameter("host_price", "of the computer around a card"),
    Parameter("rent", "H100=2.5/h", "names"),
    Parameter("api", "a million tokens in and out: 0.5/1.5", "names"),
    *_PRICES,
)
TIERS = (
    Parameter("memory", "sizes of cards, with commas between: 8,12,16,24"),
    Parameter("unified", "sizes of unified memory: 64,128"),
    Parameter("context", "tokens of context", "count"),
    Parameter("quant_least", "the smallest quant that is good enough"),
    Parameter("rows", "models of each size", "count"),
    Parameter("currency", "how prices are labelled"),
)


def devices(_desk: Desk, question: Question) -> Any:
    """As `unslow devices` answers."""
    from unslow.app import buy  # noqa: PLC0415 (imported when asked: the page is there sooner)
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    return buy.devices(LiveSystem(), buy.DevicesRequest.from_flags(question.flags))


def choose(_desk: Desk, question: Question) -> Any:
    """As `unslow choose` answers."""
    from unslow.app import buy  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    return buy.choose(LiveSystem(), buy.ChooseRequest.from_flags(question.flags))


def cost(_desk: Desk, question: Question) -> Any:
    """As `unslow cost` answers."""
    from unslow.app import buy  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    return buy.cost(LiveSystem(), buy.CostRequest.from_flags(question.flags))


def tiers(_desk: Desk, question: Question) -> Any:
    """As `unslow tiers` answers."""
    from unslow.app import buy  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    return buy.tiers(LiveSystem(), buy.TiersRequest.from_flags(question.flags))


def _html(name: str, answer: Callable[[Desk, Question], Any]) -> Callable[[Desk, Question], str]:
    def drawn(desk: Desk, question: Question) -> str:
        from unslow.show._clean import cleaned  # noqa: PLC0415
        from unslow.show._html import buyers  # noqa: PLC0415

        return str(getattr(buyers, name)(cleaned(answer(desk, question))))

    return drawn


_ASKED = (
    ("devices", "Devices side by side", "unslow.think.buy.report:DevicesReport", devices, DEVICES),
    ("choose", "What to buy for a model", "unslow.think.buy.choice_report:ChoiceReport", choose, CHOOSE),
    ("cost", "Own, rent or an API", "unslow.think.buy.cost_report:CostReport", cost, COST),
    ("tiers", "What fits which memory", "unslow.think.buy.tiers_report:TiersReport", tiers, TIERS),
)
ENDPOINTS = tuple(
    endpoint
    for name, words, kind, answer, parameters in _ASKED
    for endpoint in (
        Endpoint(f"/{name}", words, kind, answer, parameters, slow=True),
        Endpoint(
            f"/{name}.html", f"{words}, as HTML", "", _html(name, answer), parameters, media="text/html", slow=True
        ),
    )
)
