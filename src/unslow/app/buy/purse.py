"""The buyer's own prices: from flags and from a file, by the names that the catalogue has."""

import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from unslow.app.buy.amounts import named_amount
from unslow.app.buy.here import HERE
from unslow.app.buy.rigs import typed_hardware
from unslow.app.resolve import expanded
from unslow.facts.errors import UserError
from unslow.facts.units import GIB
from unslow.facts.values import Unknown
from unslow.look.system import LookError, System
from unslow.think.buy.prices import SHIPPED, Purse, plain

_MOST_BYTES = 200_000
"""A file of prices is a page or two."""
_TABLES = ("prices", "rents", "apis")
_HINT = 'a table [prices] with lines such as "RTX 3090" = 700; also [rents], [apis], currency and electricity'


class Told(NamedTuple):
    """What a file of prices says."""

    prices: tuple[tuple[str, float], ...] = ()
    rents: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()
    currency: str = ""
    electricity: float | None = None


def read_told(system: System, path: str) -> Told:
    """The buyer's file; nothing where none is named; UserError where it can't be read or says something else."""
    if not path:
        return Told()
    try:
        tables = tomllib.loads(system.read_bytes(expanded(path), _MOST_BYTES).decode("utf-8"))
    except LookError as error:
        raise UserError(f"--prices {path}: {error.why}", _HINT) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--prices {path} is no TOML: {error}", _HINT) from error
    return parse_told(tables, path)


def parse_told(tables: Mapping[str, Any], path: str) -> Told:
    """A file of prices; UserError where it has other things in it."""
    if unknown := sorted(set(tables) - {*_TABLES, "currency", "electricity"}):
        raise UserError(f"--prices {path}: {unknown[0]!r} is not known", _HINT)
    found = {name: tables.get(name, {}) for name in _TABLES}
    if not all(isinstance(table, dict) for table in found.values()):
        raise UserError(f"--prices {path}: prices stand in tables", _HINT)
    electricity = tables.get("electricity")
    try:
        return Told(
            prices=tuple((str(name), _amount(value)) for name, value in found["prices"].items()),
            rents=tuple(f"{name}={_amount(value)}" for name, value in found["rents"].items()),
            apis=tuple(f"{name}={value}" for name, value in found["apis"].items()),
            currency=str(tables.get("currency", "")),
            electricity=None if electricity is None else _amount(electricity),
        )
    except (TypeError, ValueError) as error:
        raise UserError(f"--prices {path}: a price is a number of 0 or more", _HINT) from error


def _amount(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise TypeError(value)
    return float(value)


def purse_of(system: System, told: Told, flags: Iterable[str], currency: str) -> Purse:
    """All prices that the buyer gave, the flags before the file; UserError where a name is none of the catalogue."""
    given = [*told.prices, *(named_amount(text, "--price") for text in flags)]
    own = {plain(device_key(name)): amount for name, amount in given}
    return Purse(own, (currency or told.currency or SHIPPED)[:12], system.now()[:10])


def device_key(name: str) -> str:
    """The device as prices are looked up by; with its size of memory where a name says one and several are sold."""
    if name.casefold() in HERE:
        return "here"
    hardware = typed_hardware(name)
    if isinstance(hardware, Unknown):
        raise UserError(f"{name}: {hardware.why}", hardware.how_to_get)
    if hardware.device.memory_sizes_bytes and hardware.rooms:
        return f"{hardware.device.name} {hardware.rooms[0].capacity_bytes // GIB}GB"
    return hardware.device.name
