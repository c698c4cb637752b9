"""A report as a person or a program wants it; nothing here computes. The file name is the value of `--format`."""

import importlib
import pkgutil

from unslow.facts.errors import UserError
from unslow.think.report import Report

NO_REPORTS = ("dashboard", "rules")
"""Files of a fleet, which no report is shown as."""


def formats() -> list[str]:
    """The formats there are, found by presence."""
    names = (info.name for info in pkgutil.iter_modules(__path__))
    return [name for name in names if not name.startswith("_") and name not in NO_REPORTS]


def check_format(form: str) -> None:
    """UserError where there is no such format: better before a measurement than after it."""
    if form not in formats():
        raise UserError(f"there is no format {form!r}", f"try one of {', '.join(formats())}")


def render(report: Report, form: str, *, width: int, color: bool, everything: bool = False) -> str:
    """The report in that format; `everything` also shows what is usually left out."""
    check_format(form)
    text: str = importlib.import_module(f"{__name__}.{form}").render(
        report, width=width, color=color, everything=everything
    )
    return text
