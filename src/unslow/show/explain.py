"""Documentation pages for a terminal: the text of `unslow explain`."""

import re
from collections.abc import Sequence

from unslow.show.console import pair_grid, printed_text
from unslow.think.report import Page

_CODE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
"""What is to be typed: without colours its backticks are what sets it apart."""


def page_markdown(page: Page) -> str:
    """A page in Markdown: the docstring, and what decides it."""
    lines = [f"# {page.title}", "", f"`{page.id}` · phase: {page.phase}", "", page.text.strip()]
    if page.needs:
        routes = (f"{number}. {route.looks_at} ({route.kind})" for number, route in enumerate(page.routes, 1))
        lines += ["", "## What decides it", "In this order:", "", *routes]
        lines += ["", "At least one fact of each line must be known:", "", *(f"- `{n}`" for n in page.needs)]
    if page.explains:
        lines += ["", "It also explains: " + ", ".join(f"`{e}`" for e in page.explains) + "."]
    return "\n".join(lines)


def page_text(page: Page, *, width: int, color: bool) -> str:
    """A page for a terminal."""
    from rich.markdown import Markdown  # noqa: PLC0415 (a third of the time that the list of all causes takes)

    text = page_markdown(page)
    return printed_text(Markdown(text if color else _CODE.sub(r"`` `\1` ``", text)), width=width, color=color)


def list_text(pages: Sequence[Page], *, width: int) -> str:
    """All pages, a line each."""
    grid = pair_grid()
    for page in pages:
        grid.add_row(page.id, page.title)
    return printed_text(grid, width=width)
