"""The answer of `unslow fit`, for a person or a program: the verdict, a bar for each device, and what would fit."""

import io
from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unslow.facts.errors import UserError
from unslow.show._clean import cleaned
from unslow.show._units import count, size
from unslow.think.fit.report import FitReport, MemoryShown

FORMATS = ("terminal", "json")
_NARROWEST, _BAR = 40, 60
_BESIDE = 40
"""Columns that a bar leaves for the name before it and the words after it."""
_PARTS = (
    ("other processes", "red", "x"), ("reserve", "yellow", "="), ("weights", "cyan", "█"),
    ("keys and values", "magenta", "▓"), ("compute", "blue", "▒"), ("free", "dim", "·"),
)  # fmt: skip
"""The parts of a bar in their order."""


def check_fit_format(form: str) -> None:
    """UserError where the answer has no such format."""
    if form not in FORMATS:
        raise UserError(f"there is no format {form!r} of this answer", f"try one of {', '.join(FORMATS)}")


def render_fit(report: FitReport, form: str, *, width: int, color: bool) -> str:
    """The answer in that format."""
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
    out = io.StringIO()
    console = Console(
        file=out, width=max(_NARROWEST, width), force_terminal=color, no_color=not color, highlight=False,
        emoji=False, markup=False,
    )  # fmt: skip
    console.print(_answer(cleaned(report), console.width))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _answer(report: FitReport, width: int) -> RenderableType:
    memories = _grouped([m for m in (*report.devices, report.host) if m.total_bytes or m is not report.host])
    bars = [m for m in memories if m.capacity_bytes]
    parts: list[RenderableType] = [_head(report), Text(f"  {_subject(report)}", style="dim"), "", _table(memories)]
    if bars:
        parts += ["", _bars(bars, max(16, min(_BAR, width - _BESIDE))), _legend()]
    parts += ["", _choices(report)]
    if report.notes:
        parts += ["", *(Padding(Text(note, style="dim"), (0, 0, 0, 2)) for note in report.notes)]
    return Group(*parts)


def _head(report: FitReport) -> Text:
    word, style = {
        True: (" FITS ", "bold black on green"), False: (" DOES NOT FIT ", "bold white on red"),
        None: (" CAN'T TELL ", "bold black on yellow"),
    }[report.fits]  # fmt: skip
    devices = ", ".join(_counted(d.name for d in report.devices)) or "the host alone"
    return Text(word, style=style).append(f"  {report.model.name} {report.model.quant} · {devices}", "bold not reverse")


def _grouped(memories: list[MemoryShown]) -> list[MemoryShown]:
    """Equal devices with equal parts in one line."""
    groups = [(m, len(list(same))) for m, same in groupby(memories)]
    return [m if n == 1 else msgspec.structs.replace(m, name=f"{n}x {m.name}") for m, n in groups]


def _counted(names: Iterable[str]) -> Iterator[str]:
    for name, same in groupby(names):
        number = len(list(same))
        yield name if number == 1 else f"{number}x {name}"


def _subject(report: FitReport) -> str:
    model, settings = report.model, report.settings
    parts = [
        f"{count(model.parameters)} parameters in {size(model.weights_bytes)}",
        report.runtime.replace("_", "."),
        f"{settings['context']:,} tokens",
    ]
    slots = int(settings.get("slots", 1))
    if slots > 1:
        parts.append(f"{slots} slots " + ("sharing one cache" if settings["kv_unified"] else "with a cache each"))
    kinds = dict.fromkeys((str(settings.get("kv_type", "")), str(settings.get("kv_type_v", ""))))
    parts.append(f"{'/'.join(k for k in kinds if k)} cache")
    return ", ".join(parts)


def _table(memories: list[MemoryShown]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, header_style="dim")
    table.add_column("  ")
    for name in ("weights", "keys, values", "compute", "together", "there is"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for m in memories:
        parts = (m.weights_bytes, m.kv_bytes, m.compute_bytes, m.total_bytes)
        there = "?" if m.capacity_bytes is None else size(m.capacity_bytes)
        table.add_row(f"  {m.name}", *(size(p) for p in parts), there, _verdict(m))
    return table


def _verdict(memory: MemoryShown) -> Text:
    if memory.fits is None:
        return Text("--ram tells how much the host has", style="dim")
    if memory.fits:
        return Text("✓", style="green")
    return Text(f"✗ {size(memory.lacking_bytes)} short", style="red")


def _bars(memories: list[MemoryShown], width: int) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    for m in memories:
        after = f"{size(m.free_bytes or 0)} free" if m.fits or m.free_bytes else "full"
        grid.add_row(f"  {m.name}", _bar(m, width), Text(after, style="dim"))
    return grid


def _bar(memory: MemoryShown, width: int) -> Text:
    """A line as long as the memory; what does not fit runs over its end."""
    sizes = (
        memory.others_bytes, memory.reserve_bytes, memory.weights_bytes, memory.kv_bytes, memory.compute_bytes,
        memory.free_bytes or 0,
    )  # fmt: skip
    capacity = max(1, memory.capacity_bytes or 1, sum(sizes))
    line, drawn, seen = Text(), 0, 0
    for (_, style, sign), part in zip(_PARTS, sizes, strict=True):
        seen += part
        end = round(width * seen / capacity)
        line.append(sign * (end - drawn), style=style)
        drawn = end
    inside = round(width * (memory.capacity_bytes or 0) / capacity)
    if inside < width:
        line = Text.assemble(line[:inside], Text("|", style="bold red"), line[inside:])
    return line


def _legend() -> Text:
    line = Text("  ")
    for name, style, sign in _PARTS:
        line.append(sign, style=style).append(f" {name}  ", style="dim")
    return line


def _choices(report: FitReport) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    if report.devices and report.max_gpu_layers is not None:
        grid.add_row("  most layers", _layers(report))
    grid.add_row("  most context", _context(report))
    if report.next_quant:
        quant = report.next_quant
        grid.add_row("  next quant down", f"{quant.name}: {size(quant.weights_bytes)} of weights, everything fits")
    elif not report.fits and report.devices and report.max_gpu_layers is not None:
        grid.add_row("  next quant down", "none of the usual ones fits whole")
    for kv in report.kv if len(report.kv) > 1 else ():
        cells = f", {kv.cells:,} cells each" if kv.cells else ""
        grid.add_row(f"  {kv.what}", f"{kv.layers} layers{cells}: {size(kv.bytes)}")
    if report.rule_of_thumb:
        grid.add_row("  rule of thumb", _rule(report))
    return grid


def _layers(report: FitReport) -> str:
    most, everything = report.max_gpu_layers, report.all_gpu_layers
    if most is None:
        return "not even the rest of the model fits the host"
    if most >= everything:
        return f"all {everything}"
    return f"{most} of {everything} at this context (-ngl {most})"


def _context(report: FitReport) -> str:
    if report.max_context is None:
        return "none, with this placement"
    trained = report.model.context_trained
    end = ", all that the model was trained for" if trained and report.max_context >= trained else ""
    return f"{report.max_context:,} tokens{end}"


def _rule(report: FitReport) -> str:
    rule = report.rule_of_thumb
    if rule is None:
        return ""
    off = rule.says_bytes / max(1, rule.needs_bytes)
    verdict = {True: ", so it would fit", False: ", so it would not fit", None: ""}[rule.says_fits]
    return f"{size(rule.says_bytes)} ({rule.text}){verdict}; that is {off:.2f}x of the need"
