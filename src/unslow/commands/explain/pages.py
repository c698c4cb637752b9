"""The pages of the causes and verdicts, from the docstrings of their modules."""

import difflib
import importlib

from unslow.facts.errors import UserError
from unslow.think.causes import all_causes, cause_ids
from unslow.think.causes._cause import Cause
from unslow.think.judge import normal_for_this_hardware
from unslow.think.report import Page

VERDICT = "normal_for_this_hardware"


def pages() -> list[Page]:
    """Every page, in alphabetical order, the verdict last."""
    return [*(_of_cause(name, cause) for name, cause in all_causes().items()), _of_verdict()]


def page(name: str) -> Page:
    """One page; kebab-case is understood too. No other cause is imported."""
    wanted, known = name.replace("-", "_"), [*cause_ids(), VERDICT]
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, 1)
        hint = f"did you mean {near[0]}?" if near else "`unslow explain` lists them"
        raise UserError(f"there is no cause {name!r}", hint)
    if wanted == VERDICT:
        return _of_verdict()
    return _of_cause(wanted, importlib.import_module(f"unslow.think.causes.{wanted}").CAUSE)


def _of_cause(name: str, cause: Cause) -> Page:
    needs = tuple(n if isinstance(n, str) else " or ".join(n) for n in cause.needs)
    text = (importlib.import_module(f"unslow.think.causes.{name}").__doc__ or "").strip()
    return Page(id=name, title=cause.title, phase=cause.phase, needs=needs, explains=cause.explains, text=text)


def _of_verdict() -> Page:
    text = normal_for_this_hardware.__doc__ or ""
    return Page(id=VERDICT, title=normal_for_this_hardware.TITLE, phase="verdict", text=text)
