"""What the answers to a buyer have in common: prices, speeds and tables as a person reads them."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from rich.table import Table
from rich.text import Text

from unslow.facts.errors import UserError
from unslow.show._units import GIB, rate, size
from unslow.think.buy.report import AskedShown, PriceShown, RigShown
from unslow.think.speed.report import RateShown

FORMATS = ("terminal", "json")
_GAP = 2
_READABLE, _SHORTEST_NAME = 20, 10
"""Letters of a name before anything else is left out, and at the very least."""
_TEN = 10
_HUNDRED = 100


class Column(NamedTuple):
    """A column of a table: its name, where it is aligned, and how soon it is left out where there is no room."""

    name: str
    right: bool = True
    spare: int = 0
    """The higher, the sooner it goes; 0 stays."""


def check_buy_format(form: str) -> None:
    """UserError where the answer has no such format."""
    if form not in FORMATS:
        raise UserError(f"there is no format {form!r} of this answer", f"try one of {', '.join(FORMATS)}")


def table_of(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int, name: int = 0) -> Table:
    """A plain table: columns that can be spared go where there is no room, then the names are cut, never a number."""
    cells = [tuple(row) for row in rows]
    widths = [max([len(column.name), *(len(row[n]) for row in cells)]) for n, column in enumerate(columns)]
    kept = _kept(columns, widths, width, name)
    others = sum(widths[n] + _GAP for n in kept if n != name)
    table = Table(box=None, padding=(0, _GAP, 0, 0), show_edge=False, header_style="dim", pad_edge=False)
    for n in kept:
        wide = min(widths[n], max(_SHORTEST_NAME, width - others)) if n == name else widths[n]
        side: Literal["left", "right"] = "right" if columns[n].right else "left"
        table.add_column(columns[n].name, justify=side, no_wrap=True, overflow="ellipsis", width=wide)
    for row in cells:
        table.add_row(*(row[n] for n in kept))
    return table


def _kept(columns: Sequence[Column], widths: Sequence[int], width: int, name: int) -> list[int]:
    """The columns for which there is room, the names at a readable length."""
    kept = list(range(len(columns)))
    for n in sorted(kept, key=lambda n: -columns[n].spare):
        enough = min(widths[name], _READABLE) + sum(widths[k] + _GAP for k in kept if k != name)
        if enough <= width or not columns[n].spare:
            return kept
        kept.remove(n)
    return kept


def head(label: str, text: str, style: str = "bold black on cyan") -> Text:
    """The first line of an answer."""
    return Text(f" {label} ", style=style).append(f"  {text}", "bold not reverse")


def item(text: str) -> Table:
    """One point of a list, its further lines below its first word."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("  ·", text)
    return grid


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
