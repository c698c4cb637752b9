"""What a buyer asks, checked."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from unslow.app.buy.amounts import parsed_amount, parsed_goal
from unslow.app.fit.request import parsed_count, parsed_size
from unslow.facts.errors import UserError

_LIMITS: Mapping[str, tuple[float, float]] = {
    "context": (0, 2**27), "users": (1, 4096), "prompt": (1, 2**24), "budget": (0, 1e9), "goal": (0, 1e6),
    "host_price": (0, 1e9), "tokens_per_day": (1, 1e12), "hours_per_day": (0, 24), "utilisation": (0, 1),
    "electricity": (0, 100), "years": (0.1, 30), "resale": (0, 1e9), "watts": (0, 1e6), "power_share": (0.05, 1.5),
    "prompt_ratio": (0, 1e4), "rows": (1, 1000),
}  # fmt: skip
"""What each number lies between; beyond it is a slip of the finger."""
_COUNTS = ("context", "users", "prompt", "rows")
SORTS = ("speed", "price", "value", "watts", "memory", "name")
MOST_NAMES = 64


class DevicesRequest(NamedTuple):
    """The flags of `unslow devices`."""

    names: tuple[str, ...] = ()
    model: str = ""
    quant: str | None = None
    context: int = 8192
    users: int = 1
    prompt: int = 512
    kv_type: str = "f16"
    all: bool = False
    vendor: str = ""
    min_memory: int = 0
    sort: str = ""
    price: tuple[str, ...] = ()
    prices: str = ""
    currency: str = ""

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> Self:
        """From the parsed command line; UserError where a value can't be."""
        request = cls(**checked(flags, cls._fields))
        if request.sort and request.sort not in SORTS:
            raise UserError(f"there is no order by {request.sort!r}", f"try one of {', '.join(SORTS)}")
        if len(request.names) > MOST_NAMES:
            raise UserError(f"{len(request.names)} devices are too many to compare", "--all shows all of the catalogue")
        return request


class ChooseRequest(NamedTuple):
    """The flags of `unslow choose`."""

    model: str
    quant: str | None = None
    quant_least: str = "Q4_K_M"
    context: int = 8192
    users: int = 1
    prompt: int = 512
    kv_type: str = "f16"
    budget: float | None = None
    goal: float | None = None
    have: str = ""
    among: tuple[str, ...] = ()
    partly: bool = False
    host_price: float = 0.0
    price: tuple[str, ...] = ()
    prices: str = ""
    currency: str = ""

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> Self:
        """From the parsed command line; UserError where a value can't be."""
        return cls(**checked(flags, cls._fields))


class CostRequest(NamedTuple):
    """The flags of `unslow cost`."""

    model: str
    device: tuple[str, ...] = ()
    quant: str | None = None
    context: int = 8192
    users: int = 1
    prompt: int = 512
    kv_type: str = "f16"
    tokens_per_day: float | None = None
    hours_per_day: float | None = None
    utilisation: float | None = None
    prompt_ratio: float = 3.0
    electricity: float | None = None
    years: float = 3.0
    resale: float = 0.0
    watts: float | None = None
    power_share: float = 1.0
    host_price: float = 0.0
    rent: tuple[str, ...] = ()
    api: tuple[str, ...] = ()
    price: tuple[str, ...] = ()
    prices: str = ""
    currency: str = ""

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> Self:
        """From the parsed command line; UserError where a value can't be."""
        request = cls(**checked(flags, cls._fields))
        said = [request.tokens_per_day, request.hours_per_day, request.utilisation]
        if sum(one is not None for one in said) != 1:
            hint = "one of --tokens-per-day 200000, --hours-per-day 4 and --utilisation 0.2"
            raise UserError("how much is it used?", hint)
        return request


class TiersRequest(NamedTuple):
    """The flags of `unslow tiers`."""

    memory: tuple[int, ...] = ()
    """Bytes of cards; the usual sizes where none is given."""
    unified: tuple[int, ...] = ()
    context: int = 8192
    quant_least: str = "Q4_K_M"
    rows: int = 5
    currency: str = ""

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> Self:
        """From the parsed command line; UserError where a value can't be."""
        return cls(**checked(flags, cls._fields))


def checked(flags: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """The flags of those names that were given, as numbers where they are numbers."""
    given = {name: flags[name] for name in fields if flags.get(name) is not None}
    return {name: _value(name, value) for name, value in given.items()}


def _value(name: str, value: Any) -> Any:
    if name in ("memory", "unified"):
        return tuple(_size(one) for one in str(value).split(",")) if isinstance(value, str) else tuple(value)
    if name == "min_memory" and isinstance(value, str):
        return _size(value)
    if isinstance(value, list):
        return tuple(value)
    if name not in _LIMITS:
        return value
    number = _number(name, value) if isinstance(value, str) else value
    low, high = _LIMITS[name]
    if not low <= number <= high:
        raise UserError(f"--{name.replace('_', '-')} {value} can't be", f"it is from {low:,} to {high:,.0f}")
    return number


def _number(name: str, text: str) -> float:
    if name in _COUNTS:
        return parsed_count(name, text)
    return parsed_goal(text) if name == "goal" else parsed_amount(text, f"--{name.replace('_', '-')}")


def _size(text: str) -> int:
    """A size of memory; a number alone is GB."""
    text = text.strip()
    size = parsed_size(f"{text}GB" if text.replace(".", "", 1).isdecimal() else text)
    if not size:
        raise UserError(f"{text!r} is no size of memory", "write it like 24 or 24GB")
    return size
