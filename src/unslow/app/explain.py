"""The pages of the causes and verdicts, from the docstrings of their modules."""

import difflib
import importlib
from typing import NamedTuple

from unslow.facts.errors import UserError
from unslow.think.causes import all_causes
from unslow.think.verdicts import normal_for_this_hardware

VERDICT = "normal_for_this_hardware"


class Page(NamedTuple):
    """A cause or verdict as documented."""

    id: str
    title: str
    phase: str
    needs: tuple[str, ...]
    explains: tuple[str, ...]
    text: str


def pages() -> list[Page]:
    """Every page, in alphabetical order, the verdict last."""
    causes = [
        Page(
            name, cause.title, cause.phase, tuple(n if isinstance(n, str) else " or ".join(n) for n in cause.needs),
            cause.explains, _doc(f"unslow.think.causes.{name}"),
        )
        for name, cause in all_causes().items()
    ]  # fmt: skip
    return [
        *causes,
        Page(VERDICT, normal_for_this_hardware.TITLE, "verdict", (), (), normal_for_this_hardware.__doc__ or ""),
    ]


def page(name: str) -> Page:
    """One page; kebab-case is understood too."""
    wanted = name.replace("-", "_")
    found = {p.id: p for p in pages()}
    if wanted not in found:
        near = difflib.get_close_matches(wanted, found, 1)
        raise UserError(
            f"there is no cause {name!r}", f"did you mean {near[0]}?" if near else "`unslow explain` lists them"
        )
    return found[wanted]


def _doc(module: str) -> str:
    return (importlib.import_module(module).__doc__ or "").strip()
