"""The answer of `unslow predict`: the speeds, where the time of a token goes, and the memory wall."""

from collections.abc import Iterator
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unslow.show.console import ReportKind, dim, head, indent_text, verdict_head
from unslow.show.units import count, rate, size, span
from unslow.think.speed.report import ExplainShown, PlacementShown, PredictionReport, QuantShown, RateShown, SpeedShown

_LONGEST_BAR, _SHORTEST_BAR = 40, 8
_WALLS_BESIDE, _BATCHES_BESIDE, _QUANTS_BESIDE = 56, 48, 64  # The columns that stand beside a bar, in letters
_OVERLAP = (
    "The parts overlap in practice: each is the time a step would save if that part were free, fitted to measured "
    "speeds. A profiler will show different numbers."
)


def _answer(report: PredictionReport, width: int) -> RenderableType:
    notes, what = [dim(note) for note in report.notes], f"{report.model.name} {report.model.quant}"
    if report.decode is None:
        hint = [indent_text(report.hint)] if report.hint else []
        return Group(verdict_head("cannot_tell", f"{what}: {report.reason}"), *hint, *notes)
    place = report.place
    where = "" if place is None else f"{place.gpus}x {place.device}" if place.gpus > 1 else place.device
    title = head(f"{rate(report.decode.tokens_per_s.mid)} tok/s", f"{what} · {where}")
    parts: list[RenderableType] = [title, dim(_subject(report)), "", _speeds(report), ""]
    parts += [walls_table(report.decode, width, explain=report.explain is not None)]
    if report.explain:
        parts += ["", *memory_wall(report.explain, report.model.quant, width)]
    if report.basis:
        parts += ["", dim(report.basis.text)]
    return Group(*parts, *notes)


def _subject(report: PredictionReport) -> str:
    model, settings, place = report.model, report.settings, report.place
    said = [f"{count(model.parameters)} parameters, {size(model.weights_bytes)}"]
    if place:
        said.append(f"{place.runtime} on {place.backend}")
    depth, batch = int(settings.get("depth", 0)), int(settings.get("batch", 1))
    said.append(f"{depth:,} tokens of context" if depth else "empty context")
    if batch > 1:
        said.append(f"{batch:,} conversations")
    said.append(f"{settings.get('kv_type', 'f16')} KV cache")
    if place and place.gpus > 1:
        said.append(f"split by {settings.get('split', 'layer')}")
    if report.placement:
        said.append(_placement(report.placement))
    return " · ".join(said)


def _placement(placement: PlacementShown) -> str:
    everything = placement.all_gpu_layers
    why = " (as many as fit)" if placement.chosen else ""
    experts = f"experts of {placement.experts_on_cpu} layers in host memory"
    if placement.gpu_layers >= everything:
        return experts + why if placement.experts_on_cpu else f"all {everything} layers offloaded"
    rest = f"the rest and {experts}" if placement.experts_on_cpu else "the rest in host memory"
    return f"{placement.gpu_layers} of {everything} layers offloaded{why}, {rest}"


def _speeds(report: PredictionReport) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(no_wrap=True, justify="right", style="bold")
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    decode, prefill, drafted = report.decode, report.prefill, report.speculative
    if decode is None or prefill is None:
        return grid
    speed, batch = decode.tokens_per_s, int(report.settings.get("batch", 1))
    together = ", total" if batch > 1 else ""
    grid.add_row(f"  decode{together}", rate(speed.mid), "tok/s", f"{_ends(speed)} (80 % interval)")
    if batch > 1:
        grid.add_row("  per conversation", rate(decode.each_tokens_per_s), "tok/s", "")
    if ceiling := decode.ceiling_tokens_per_s:
        reached = f"set by memory bandwidth ({speed.mid / ceiling:.0%} reached)"
        grid.add_row("  ceiling", rate(ceiling), "tok/s", reached)
    if drafted:
        said = f"{_ends(drafted.tokens_per_s)}, x{drafted.speedup:.2f}: {drafted.accepted_per_step:.1f} tokens per step"
        accepted = f"{said} at {drafted.acceptance:.0%} acceptance"
        grid.add_row("  with draft model", rate(drafted.tokens_per_s.mid), "tok/s", accepted)
        least = drafted.break_even_acceptance
        pays = "never pays off here" if least is None else f"pays off from {least:.0%} acceptance"
        grid.add_row("", "", "", f"{drafted.draft} {pays}")
    prompt, first = prefill.tokens_per_s, prefill.time_to_first_token_s
    grid.add_row(f"  prefill of {prefill.prompt_tokens:,}", rate(prompt.mid), "tok/s", _ends(prompt))
    grid.add_row("  time to first token", *span(first.mid).split(" "), f"{span(first.low)} to {span(first.high)}")
    return grid


def _ends(interval: RateShown) -> str:
    return f"{rate(interval.low)} to {rate(interval.high)}"


def walls_table(decode: SpeedShown, width: int, *, explain: bool) -> RenderableType:
    """A bar for each part of a step, the largest first; with --explain also what halving it would give."""
    bar = _bar_length(width, _WALLS_BESIDE if explain else _WALLS_BESIDE - 12)
    grid = _grid("left", "left", "right", "right", "right")
    if explain:
        grid.add_row("", "", "", "", Text("if halved", style="dim"))
    for wall in decode.walls:
        style = "bold red" if wall.binds else "cyan"
        halved = f"{rate(wall.halved_tokens_per_s)} tok/s" if explain else ""
        name = Text(f"  {wall.part}", style="bold" if wall.binds else "")
        share = f"{wall.share:.0%}" if wall.share >= 0.01 else "<1%"  # noqa: PLR2004 (below it, a share reads as none)
        grid.add_row(name, _bar(wall.share, bar, style), span(wall.seconds), share, halved)
    binding = next((w.part for w in decode.walls if w.binds), "")
    title = Text(f"Time per step: {span(decode.step_s)}, bound by {binding}", style="bold")
    return Group(title, grid, *((dim(_OVERLAP),) if explain else ()))


def memory_wall(explain: ExplainShown, own_quant: str, width: int) -> Iterator[RenderableType]:
    """What more conversations and other quants would give."""
    yield Text("Concurrent conversations", style="bold")
    bar = _bar_length(width, _BATCHES_BESIDE)
    most = max(p.tokens_per_s for p in explain.batching)
    grid = _grid("right", "left", "right", "right", "left")
    grid.add_row("", "", *(Text(t, style="dim") for t in ("total tok/s", "each", "")))
    for p in explain.batching:
        room = Text("cache does not fit", style="yellow") if p.fits is False else Text("")
        together, each = rate(p.tokens_per_s), rate(p.each_tokens_per_s)
        grid.add_row(f"{p.conversations:5}", _bar(p.tokens_per_s / most, bar, "cyan"), together, each, room)
    yield grid
    if explain.ridge_conversations is not None:
        conversations = f"{explain.ridge_conversations:,.0f} conversations"
        yield dim(f"Above about {conversations}, compute becomes the limit instead of reading the weights.")
    yield ""
    yield Text("Quant by quant", style="bold")
    longest = _bar_length(width, _QUANTS_BESIDE)
    fastest = max([q.tokens_per_s for q in explain.quants], default=1.0)
    table = _grid("left", "right", "right", "left", "right", "left")
    table.add_row("", *(Text(t, style="dim") for t in ("weights", "bits", "", "tok/s", "")))
    for q in explain.quants:
        style = "bold" if q.name == own_quant else ""
        name = Text(f"{'>' if q.name == own_quant else ' '} {q.name}", style=style)
        speed = Text(rate(q.tokens_per_s), style=style)
        length = _bar(q.tokens_per_s / fastest, longest, "cyan")
        table.add_row(name, size(q.weights_bytes), f"{q.bits_per_weight:.1f}", length, speed, _fits(q))
    yield table


def _fits(quant: QuantShown) -> Text:
    if quant.fits is None:
        return Text("")
    if quant.fits:
        return Text("✓ fits", style="green")
    if quant.experts_on_cpu:
        return Text(f"✗ experts of {quant.experts_on_cpu} in RAM", style="yellow")
    return Text("✗" if quant.gpu_layers is None else f"✗ {quant.gpu_layers} layers fit", style="yellow")


def _grid(*sides: Literal["left", "right"]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for side in sides:
        grid.add_column(no_wrap=True, justify=side)
    return grid


def _bar_length(width: int, beside: int) -> int:
    return max(_SHORTEST_BAR, min(_LONGEST_BAR, width - beside))


def _bar(share: float, width: int, style: str) -> Text:
    """A line of that share of the width, and a thin one where that is less than a letter."""
    drawn = round(width * min(1.0, share))
    line = Text("█" * drawn or "|" * (share > 0), style=style)
    return line.append("·" * (width - len(line)), style="dim")


render_predict = ReportKind(PredictionReport, _answer)
