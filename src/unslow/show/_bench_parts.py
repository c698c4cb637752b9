"""The time of a token by its parts, as a table: what can't be told from nothing is said to be so."""

from collections.abc import Iterator

from rich.console import RenderableType

from unslow.show._console import dim, plain_table
from unslow.think.bench.parts import Part, Parts

_WORDS = {
    "device_step": "the step on the device",
    "step_and_loop": "the step, and the server's loop",
    "sampling": "sampling",
    "streaming": "streaming",
    "delivery": "the way to the client",
    "unexplained": "unexplained",
}


def token_parts(parts: Parts) -> Iterator[RenderableType]:
    """The table, and below it how each part was measured."""
    table = plain_table("  A TOKEN", "MS", "SHARE", "95 % INTERVAL")
    table.add_row("  as the client sees it", f"{parts.seconds * 1e3:.3f}", "100%", "")
    for part in parts.parts:
        table.add_row(f"  {_WORDS.get(part.name, part.name)}", *_cells(part, parts.seconds))
    yield table
    if parts.gpu_idle_s is not None:
        yield dim(f"the GPU had nothing to do for {parts.gpu_idle_s * 1e3:.3f} ms of it")
    for part in parts.parts:
        yield dim(f"{_WORDS.get(part.name, part.name)}: {part.how}")
    for note in parts.notes:
        yield dim(f"! {note}")
    yield ""


def _cells(part: Part, whole_s: float) -> tuple[str, str, str]:
    interval = f"{part.low_s * 1e3:.3f} to {part.high_s * 1e3:.3f}"
    if not part.told_apart and not part.seconds:
        return "-", "none seen", interval
    return f"{part.seconds * 1e3:.3f}", f"{part.seconds / whole_s:.1%}" if whole_s else "-", interval
