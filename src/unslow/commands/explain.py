"""Explain a cause: what it is, how to confirm it, how to fix it.

Without a name, all causes are listed.

examples:
  unslow explain
  unslow explain weights_spill_to_ram
"""

import difflib
import importlib
from typing import Annotated

from unslow.commands._request import Option, Request
from unslow.facts.errors import UserError
from unslow.think.report import Page, PageRoute

_VERDICT = "normal_for_this_hardware"


class ExplainRequest(Request, frozen=True, kw_only=True):
    """What a cause is, why it is slow, how to confirm it and how to fix it on each runtime."""

    cause: Annotated[str | None, Option("id of a cause, such as cpu_contended", metavar="cause", positional=True)] = (
        None
    )
    json: Annotated[bool, Option("as JSON")] = False


def run(request: ExplainRequest) -> int:
    """Show one page, or the list."""
    from unslow.commands._output import color, width, write
    from unslow.show.console import as_json
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
    from unslow.think.causes import cause_ids

    wanted, known = cause.replace("-", "_"), [*cause_ids(), _VERDICT]  # kebab-case is understood too
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, 1)
        hint = f"did you mean {near[0]}?" if near else "`unslow explain` lists them"
        raise UserError(f"unknown cause {cause!r}", hint)
    return _page_of_verdict() if wanted == _VERDICT else _page_of_cause(wanted)


def causes() -> tuple[Page, ...]:
    """Every cause that can be found, in alphabetical order, and the verdict "normal" last."""
    from unslow.think.causes import cause_ids

    return (*map(_page_of_cause, cause_ids()), _page_of_verdict())


def _page_of_cause(name: str) -> Page:
    """From the docstring of its module; no other cause is imported."""
    module = importlib.import_module(f"unslow.think.causes.{name}")
    cause, text = module.CAUSE, (module.__doc__ or "").strip()
    needs = tuple(need if isinstance(need, str) else " or ".join(need) for need in cause.needs)
    looks = ((route.kind, (route.look.__doc__ or "").partition("\n")[0]) for route in cause.routes)
    routes = tuple(PageRoute(kind=kind, looks_at=first_line) for kind, first_line in looks)
    return Page(
        id=name, title=cause.title, phase=cause.phase, needs=needs, routes=routes, explains=cause.explains, text=text
    )


def _page_of_verdict() -> Page:
    from unslow.think.judge import normal_for_this_hardware

    text = normal_for_this_hardware.__doc__ or ""
    return Page(id=_VERDICT, title=normal_for_this_hardware.TITLE, phase="verdict", text=text)
