"""Explain a cause: what it is, how to confirm it, how to fix it. Without a name, list them all.

examples:
  unslow explain
  unslow explain weights_spill_to_ram
"""

from typing import Annotated

from unslow.commands._request import Option, Request
from unslow.think.report import Page


class ExplainRequest(Request, frozen=True, kw_only=True):
    """What a cause is, why it is slow, how to confirm it and how to fix it on each runtime."""

    cause: Annotated[
        str | None, Option("the id of a cause, such as cpu_contended", metavar="cause", positional=True)
    ] = None
    json: Annotated[bool, Option("as JSON")] = False


def run(request: ExplainRequest) -> int:
    """Show one page, or the list."""
    from unslow.commands._output import color, width, write
    from unslow.show.clean import as_json
    from unslow.show.explain import list_text, page_text

    chosen = (explain(request.cause),) if request.cause else causes()
    if request.json:
        write(as_json(chosen))
    elif request.cause:
        write(page_text(chosen[0], width=width(), color=color()))
    else:
        write(list_text(chosen, width=width()))
    return 0


def explain(cause: str) -> Page:
    """What a cause is, why it is slow, how to confirm it and how to fix it on each runtime.

    cause: the id of a cause, such as weights_spill_to_ram; `causes` lists them
    """
    from unslow.commands.explain.pages import page

    return page(cause)


def causes() -> tuple[Page, ...]:
    """Every cause that can be found, in alphabetical order, and the verdict "normal" last."""
    from unslow.commands.explain.pages import pages

    return tuple(pages())
