"""The well-known models of the catalogue as a list."""

from collections.abc import Sequence

from unslow.catalog.models import WellKnown
from unslow.show._clean import as_json
from unslow.show._console import TextConsole, bare_table
from unslow.show._units import count


def render_known(models: Sequence[WellKnown], form: str, *, width: int) -> str:
    """A line for each model, or all of them as JSON."""
    if form == "json":
        rows = [{"name": m.name, "architecture": m.architecture, "parameters": m.parameters} for m in models]
        return as_json(rows)
    table = bare_table()
    for name, to_the_right in (("NAME", False), ("PARAMS", True), ("CONTEXT", True), ("ARCHITECTURE", False)):
        table.add_column(name, justify="right" if to_the_right else "left", no_wrap=True, overflow="ellipsis")
    for model in models:
        table.add_row(model.name, count(model.parameters), f"{model.shape.context_trained:,}", model.architecture)
    console = TextConsole(width=width, color=False)
    console.print(table)
    return console.text
