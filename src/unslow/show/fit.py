"""The answer of `unslow fit`: the verdict, a bar for each device, what would fit; and the list of well-known models."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unslow.catalog.models import WellKnown
from unslow.show import console
from unslow.show.units import count, size
from unslow.think.fit.report import FitReport, MemoryShown, WayShown

_LONGEST_BAR, _SHORTEST_BAR = 60, 12
_TABLE_FROM = 84  # The width from which on the parts of a need stand in columns
_PARTS = (
    ("other processes", "red", "x"), ("reserve", "yellow", "="), ("weights", "cyan", "█"),
    ("KV cache", "magenta", "▓"), ("compute", "blue", "▒"), ("free", "dim", "·"),
)  # fmt: skip
"""The parts of a bar in their order."""


def _answer(report: FitReport, width: int) -> RenderableType:
    lines = _lines(report)
    bars = [(label, memory) for label, memory in lines if memory.capacity_bytes]
    counted = [(name, len(list(same))) for name, same in groupby(device.name for device in report.devices)]
    devices = ", ".join(f"{n}x {name}" if n > 1 else name for name, n in counted) or "CPU only"
    title = console.verdict_head(report.verdict, f"{report.model.name} {report.model.quant} · {devices}")
    parts: list[RenderableType] = [title, console.dim(_subject(report)), "", _needs(lines, width)]
    if bars:
        drawn = [_sizes(memory) for memory in (*report.devices, report.host) if memory.capacity_bytes]
        legend = Text("  ")
        for n, (name, part_style, sign) in enumerate(_PARTS):
            if any(sizes[n] for sizes in drawn):
                legend.append(sign, style=part_style).append(f" {name}  ", style="dim")
        parts += ["", *_bars(bars, width), legend]
    parts += ["", _room(report)]
    if report.command and not report.ways:
        parts += [Text("  run with", style="dim"), *_lines_to_copy(report, 4)]
    if report.ways:
        parts += ["", Text("Options that fit", style="bold")]
        for way in report.ways:
            parts += [console.indent_text(f"- {way.what}"), *_lines_to_copy(way, 6)]
    if report.notes:
        parts += ["", *(console.dim(note) for note in report.notes)]
    return Group(*parts)


def _subject(report: FitReport) -> str:
    model, settings = report.model, report.settings
    slots = int(settings.get("slots", 1))
    each = settings.get("context_per_slot")
    divided = f" in {slots} slots" + (f" of {each:,} tokens" if each else "")
    shared = f" shared by {slots} slots" if settings.get("kv_unified") else divided
    tokens = f"context {settings['context']:,}" + (shared if slots > 1 else "")
    kinds = dict.fromkeys(str(settings.get(k, "")) for k in ("kv_type", "kv_type_v"))
    sizes = f"{count(model.parameters)} parameters, {size(model.weights_bytes)}"
    cache = f"{'/'.join(k for k in kinds if k)} KV cache"
    return " · ".join((sizes, report.runtime.replace("_", "."), tokens, cache))


def _lines(report: FitReport) -> list[tuple[str, MemoryShown]]:
    """A line for each device, those in a row that are alike together, and one for the host where it is asked for."""
    several = len(report.devices) > 1
    lines, first = [], 0
    for memory, same in groupby(report.devices):
        last = first + len(list(same)) - 1
        number = f"{first} " if first == last else f"{first}-{last} each "
        lines.append((f"{number if several else ''}{memory.name}", memory))
        first = last + 1
    host = [(report.host.name, report.host)] if report.host.total_bytes else []
    return lines + host


def _needs(lines: list[tuple[str, MemoryShown]], width: int) -> RenderableType:
    if width < _TABLE_FROM:
        said = []
        for label, m in lines:
            parts = (("weights", m.weights_bytes), ("KV cache", m.kv_bytes), ("compute", m.compute_bytes))
            text = Text(f"{label}: needs {size(m.total_bytes)}", style="bold")
            text.append(f" ({', '.join(f'{name} {size(s)}' for name, s in parts if s)})", "not bold")
            text.append(f", usable {'?' if m.usable_bytes is None else size(m.usable_bytes)} ", "not bold")
            said.append(Padding(text.append_text(_mark(m)), (0, 0, 0, 2)))
        return Group(*said)
    table = console.bare_table()
    table.add_column("  ", overflow="ellipsis", no_wrap=True)
    for name in ("weights", "KV cache", "compute", "needs", "usable"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for label, m in lines:
        sizes = (m.weights_bytes, m.kv_bytes, m.compute_bytes, m.total_bytes)
        there = "?" if m.usable_bytes is None else size(m.usable_bytes)
        table.add_row(f"  {label}", *(size(s) if s else "-" for s in sizes), there, _mark(m))
    return table


def _mark(memory: MemoryShown) -> Text:
    if memory.fits is None:
        return Text("(--ram SIZE)", style="dim")
    if not memory.fits:
        return Text(f"✗ {size(memory.lacking_bytes)} short", style="red")
    if memory.total_bytes and (memory.free_bytes or 0) < memory.margin_bytes:
        return Text(f"! less than {size(memory.margin_bytes)} left", style="yellow")
    return Text("✓", style="green")


def _bars(lines: list[tuple[str, MemoryShown]], width: int) -> list[RenderableType]:
    longest = max(len(label) for label, _ in lines)
    bar = min(_LONGEST_BAR, width - longest - 20)
    if bar < _SHORTEST_BAR:
        bar = width - 4
        return [Group(Text(f"  {label}"), Text("  ").append_text(_bar(m, bar))) for label, m in lines]
    grid = Table.grid(padding=(0, 2))
    for _ in range(3):
        grid.add_column(no_wrap=True)
    for label, m in lines:
        after = f"{size(m.free_bytes or 0)} free" if m.free_bytes else "full"
        grid.add_row(f"  {label}", _bar(m, bar), Text(after, style="dim"))
    return [grid]


def _bar(memory: MemoryShown, width: int) -> Text:
    """A line as long as the memory; what does not fit runs over its end, which is then marked."""
    sizes = _sizes(memory)
    over = sum(sizes) > (memory.capacity_bytes or 0) * 1.005
    whole, width = max(1, memory.capacity_bytes or 1, sum(sizes)), width - over
    line, drawn, seen = Text(), 0, 0
    for (_, style, sign), part in zip(_PARTS, sizes, strict=True):
        seen += part
        end = round(width * seen / whole)
        line.append(sign * (end - drawn), style=style)
        drawn = end
    if not over:
        return line
    inside = round(width * (memory.capacity_bytes or 0) / whole)
    return Text.assemble(line[:inside], Text("|", style="bold red"), line[inside:])


def _sizes(memory: MemoryShown) -> tuple[int, ...]:
    return (
        memory.others_bytes, memory.reserve_bytes, memory.weights_bytes, memory.kv_bytes, memory.compute_bytes,
        memory.free_bytes or 0,
    )  # fmt: skip


def _room(report: FitReport) -> Table:
    grid = console.pair_grid()
    if report.devices and report.max_gpu_layers is not None:
        most, everything = report.max_gpu_layers, report.all_gpu_layers
        grid.add_row("  max GPU layers", f"all {everything}" if most >= everything else f"{most} of {everything}")
    trained, most_context = report.model.context_trained, report.max_context
    if report.verdict == "cannot_tell":
        context = "depends on the size of host memory (--ram)"
    elif most_context is None:
        context = "does not fit at any length"
    else:
        end = " (the model's trained limit)" if trained and most_context >= trained else ""
        context = f"{most_context:,} tokens{end}"
    grid.add_row("  max context", context)
    for kv in report.kv if len(report.kv) > 1 else ():
        cells = f" of {kv.cells:,} tokens" if kv.cells else ""
        grid.add_row(f"  KV: {kv.what}", f"{kv.layers} layers{cells}, {size(kv.bytes)}")
    return grid


def _lines_to_copy(one: FitReport | WayShown, indent: int) -> list[Text]:
    lines = one.commands or ((one.command,) if one.command else ())
    return [console.command_text(line, indent) for line in lines]


render_fit = console.ReportKind(FitReport, _answer, crop=False)


def render_known(models: Sequence[WellKnown], form: str, *, width: int) -> str:
    """A line for each model, or all of them as JSON."""
    if form == "json":
        fields = ("name", "architecture", "parameters")
        return console.as_json([{field: getattr(model, field) for field in fields} for model in models])
    table = console.bare_table()
    for name, to_the_right in (("NAME", False), ("PARAMS", True), ("CONTEXT", True), ("ARCHITECTURE", False)):
        table.add_column(name, justify="right" if to_the_right else "left", no_wrap=True, overflow="ellipsis")
    for model in models:
        table.add_row(model.name, count(model.parameters), f"{model.shape.context_trained:,}", model.architecture)
    return console.printed_text(table, width=width)
