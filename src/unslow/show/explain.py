"""Documentation pages for a terminal: the text of `unslow explain`."""

import io
import re
from collections.abc import Sequence
from typing import Protocol

from rich.console import Console
from rich.table import Table

from unslow.show.clean import as_json

_CODE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
"""What is to be typed: without colours its backticks are what sets it apart."""


class Page(Protocol):
    """What a page must have to be shown."""

    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def needs(self) -> tuple[str, ...]: ...
    @property
    def explains(self) -> tuple[str, ...]: ...
    @property
    def text(self) -> str: ...


def page_markdown(page: Page) -> str:
    """A page in Markdown: the docstring, and what decides it."""
    lines = [f"# {page.title}", "", f"`{page.id}` · phase: {page.phase}", "", page.text.strip()]
    if page.needs:
        lines += ["", "## What decides it", *(f"- `{n}`" for n in page.needs)]
    if page.explains:
        lines += ["", "Where it is found, it also explains: " + ", ".join(f"`{e}`" for e in page.explains) + "."]
    return "\n".join(lines)


def page_text(page: Page, *, width: int, color: bool) -> str:
    """A page for a terminal."""
    from rich.markdown import Markdown  # noqa: PLC0415 (a third of the time that the list of all causes takes)

    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=color, no_color=not color)
    text = page_markdown(page)
    console.print(Markdown(text if color else _CODE.sub(r"`` `\1` ``", text)))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def list_text(pages: Sequence[Page], *, width: int) -> str:
    """All pages, a line each."""
    out = io.StringIO()
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for page in pages:
        table.add_row(page.id, page.title)
    Console(file=out, width=width, no_color=True).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def page_json(pages: Sequence[Page]) -> str:
    """The pages as JSON."""
    names = ("id", "title", "phase", "needs", "explains", "text")
    return as_json([{name: getattr(page, name) for name in names} for page in pages])
