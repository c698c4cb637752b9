"""The list of models on a machine, for a person or a program."""

import re
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unslow.facts.stored_model import RUNNABLE, Inventory, Kind, StoredModel
from unslow.facts.values import KIB, MIB
from unslow.show.console import ReportKind, bare_table, indent_text, pair_grid, safe_text
from unslow.show.units import count, size

_EXACT = re.compile(r"\b(\d{7,18}) bytes\b")
_COLUMNS = (("NAME", 0), ("KIND", 96), ("ARCHITECTURE", 76), ("PARAMS", 60), ("QUANT", 48), ("SIZE", 0), ("IN", 60))
"""The columns, and the width of a terminal from which on there is room for them."""
_MOST = {"ARCHITECTURE": 16, "QUANT": 18, "IN": 20}


def safe(text: str) -> str:
    """The text on one line, without what could drive a terminal."""
    return safe_text(text.replace("\n", " "))


def _parts(inventory: Inventory, width: int, *, everything: bool = False) -> Iterator[RenderableType]:
    shown = list(inventory.models)
    if not everything:
        shown = [m for m in shown if not (m.superseded or m.kind in (Kind.OTHER, Kind.REMOTE))][:300]
    if shown:
        yield _table(shown, width)
        yield ""
    if inventory.models:
        runnable = sum(m.kind in RUNNABLE for m in inventory.models)
        broken = sum(bool(m.broken) for m in inventory.models)
        others, aside = len(inventory.models) - runnable, len(inventory.models) - len(shown)
        totals = [f"{runnable} model{'s' * (runnable != 1)}"]
        totals += [f"{others} other file{'s' * (others != 1)}"] if others else []
        totals.append(f"{_size(inventory.total_bytes)} on disk")
        totals += [f"{broken} broken"] if broken else []
        totals += [f"{aside} hidden (--all)"] if aside else []
        yield ", ".join(totals)
    else:
        yield "No models found."
    yield from (_line(f"✗ {m.name}: {_readable(m.broken)}", "red") for m in shown if m.broken)
    yield from (_line(_readable(notice), "dim") for notice in inventory.notices)
    if everything:
        yield Text("Files", style="bold")
        yield from (part for m in shown for part in (_line(m.name, "dim"), _line(m.path, indent=4)))
    if everything or not shown:
        yield Text("Searched in", style="bold")
        grid = pair_grid()
        for place in inventory.places:
            why = place.why.removeprefix(f"{place.path}: ")
            grid.add_row(f"  {place.tool}", Text(safe(f"{place.path}{': ' if why else ''}{why}")))
        yield grid


def _line(text: str, style: str = "", indent: int = 2) -> Padding:
    return indent_text(safe(text), style, indent)


def _table(models: Sequence[StoredModel], width: int) -> Table:
    names = [name for name, least in _COLUMNS if width >= least]
    table = bare_table(pad_edge=False)
    for name in names:
        table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=_MOST.get(name))
        table.columns[-1].justify = "right" if name in ("PARAMS", "SIZE") else "left"
    table.columns[0].overflow, table.columns[0].no_wrap = "fold", False
    for model in models:
        place, most = safe(model.place), _MOST["IN"]
        place = place if len(place) <= most else f"…{place[1 - most :]}"  # its end tells more than its start
        cells = {
            "NAME": safe(model.name),
            "KIND": model.kind,
            "ARCHITECTURE": safe(model.architecture or "?"),
            "PARAMS": count(model.parameters) if model.parameters else "?",
            "QUANT": safe(model.quant or "?"),
            "SIZE": _size(model.size_bytes),
            "IN": place if model.tool in ("folder", "file") else model.tool,
        }
        table.add_row(*(cells[name] for name in names), style="red" if model.broken else None)
    return table


def _size(number: int) -> str:
    """As everywhere, with kibibytes for an adapter of a few."""
    return size(number) if number >= MIB or not number else f"{-(-number // KIB):,} KiB"


def _readable(text: str) -> str:
    """The text with large numbers of bytes in binary units."""
    return _EXACT.sub(lambda match: size(int(match[1])), text)


render_models = ReportKind(Inventory, _parts, called="the list of models", clean=False)
