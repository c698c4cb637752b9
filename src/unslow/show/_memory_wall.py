"""The memory wall in a terminal: where a token's time goes, what batching gives, and quant by quant the speed."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unslow.show._console import dim
from unslow.show._units import rate, size, span
from unslow.think.speed.report import BatchShown, ExplainShown, QuantShown, SpeedShown

_LONGEST_BAR, _SHORTEST_BAR = 40, 8
_WALLS_BESIDE, _BATCHES_BESIDE, _QUANTS_BESIDE = 56, 48, 64
"""The columns that stand beside a bar, in letters."""
_OVERLAP = (
    "The parts overlap in reality: each is what the step would lose if that part cost nothing, as learned from "
    "measured speeds, not what a profiler shows for it."
)


def walls_table(decode: SpeedShown, width: int, *, explain: bool) -> RenderableType:
    """A bar for each part of a step, the largest first; with --explain also what halving it would give."""
    bar = _bar_length(width, _WALLS_BESIDE if explain else _WALLS_BESIDE - 12)
    grid = Table.grid(padding=(0, 2))
    for justify in ("left", "left", "right", "right", "right"):
        grid.add_column(no_wrap=True, justify=justify)
    if explain:
        grid.add_row("", "", "", "", Text("if halved", style="dim"))
    for wall in decode.walls:
        style = "bold red" if wall.binds else "cyan"
        halved = f"{rate(wall.halved_tokens_per_s)} tok/s" if explain else ""
        name = Text(f"  {wall.part}", style="bold" if wall.binds else "")
        share = f"{wall.share:.0%}" if wall.share >= 0.01 else "<1%"  # noqa: PLR2004 (below it, a share reads as none)
        grid.add_row(name, _bar(wall.share, bar, style), span(wall.seconds), share, halved)
    binding = next((w.part for w in decode.walls if w.binds), "")
    title = Text(f"Where the {span(decode.step_s)} of a step go: {binding} {_verb(binding)}", style="bold")
    return Group(title, grid, *((dim(_OVERLAP),) if explain else ()))


def _verb(part: str) -> str:
    return "bind" if part.endswith("s") else "binds"


def memory_wall(explain: ExplainShown, own_quant: str, width: int) -> Iterator[RenderableType]:
    """What more conversations and other quants would give."""
    yield Text("Conversations at once", style="bold")
    yield _batching(explain.batching, width)
    yield from _ridge(explain)
    yield ""
    yield Text("Quant by quant", style="bold")
    yield _quants(explain.quants, own_quant, width)


def _batching(points: tuple[BatchShown, ...], width: int) -> Table:
    bar = _bar_length(width, _BATCHES_BESIDE)
    most = max(p.tokens_per_s for p in points)
    grid = Table.grid(padding=(0, 2))
    for justify in ("right", "left", "right", "right", "left"):
        grid.add_column(no_wrap=True, justify=justify)
    grid.add_row("", "", *(Text(t, style="dim") for t in ("all, tok/s", "each", "")))
    for p in points:
        room = Text("cache does not fit", style="yellow") if p.fits is False else Text("")
        together, each = rate(p.tokens_per_s), rate(p.each_tokens_per_s)
        grid.add_row(f"{p.conversations:5}", _bar(p.tokens_per_s / most, bar, "cyan"), together, each, room)
    return grid


def _ridge(explain: ExplainShown) -> Iterator[RenderableType]:
    if explain.ridge_conversations is not None:
        text = (
            f"Ridge: from about {explain.ridge_conversations:,.0f} conversations on, arithmetic at its best would take "
            "as long as reading the weights."
        )
        yield dim(text)


def _quants(quants: tuple[QuantShown, ...], own: str, width: int) -> Table:
    bar = _bar_length(width, _QUANTS_BESIDE)
    most = max([q.tokens_per_s for q in quants], default=1.0)
    grid = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right", "left", "right", "left"):
        grid.add_column(no_wrap=True, justify=justify)
    grid.add_row("", *(Text(t, style="dim") for t in ("weights", "bits", "", "tok/s", "")))
    for q in quants:
        style = "bold" if q.name == own else ""
        name = Text(f"{'>' if q.name == own else ' '} {q.name}", style=style)
        speed = Text(rate(q.tokens_per_s), style=style)
        length = _bar(q.tokens_per_s / most, bar, "cyan")
        grid.add_row(name, size(q.weights_bytes), f"{q.bits_per_weight:.1f}", length, speed, _fits(q))
    return grid


def _fits(quant: QuantShown) -> Text:
    if quant.fits is None:
        return Text("")
    if quant.fits:
        return Text("✓ fits", style="green")
    if quant.experts_on_cpu:
        return Text(f"✗ experts of {quant.experts_on_cpu} on host", style="yellow")
    return Text("✗" if quant.gpu_layers is None else f"✗ {quant.gpu_layers} layers fit", style="yellow")


def _bar_length(width: int, beside: int) -> int:
    return max(_SHORTEST_BAR, min(_LONGEST_BAR, width - beside))


def _bar(share: float, width: int, style: str) -> Text:
    """A line of that share of the width, and a thin one where that is less than a letter."""
    drawn = round(width * min(1.0, share))
    line = Text("█" * drawn or "|" * (share > 0), style=style)
    return line.append("·" * (width - len(line)), style="dim")
