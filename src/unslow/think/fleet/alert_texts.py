"""What an alert says, from the page of its cause: the rules are no second place to keep that."""

import importlib
import re
from typing import NamedTuple

from unslow.think.causes import all_causes

LONGEST = 700
"""Of one annotation, in characters: what a phone shows without scrolling for long."""
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_ITEM = re.compile(r"\n- ")
_SPACE = re.compile(r"\s+")


class Texts(NamedTuple):
    """What is wrong in a few words, in a sentence, why that is slow, and what to do; a last cause may not say why."""

    title: str
    what: str
    why: str
    to_do: str


def texts_of(cause: str) -> Texts:
    """The words of one cause, from its title and its docstring."""
    head, sections = _sections(importlib.import_module(f"unslow.think.causes.{cause}").__doc__ or "")
    why = next((text for name, text in sections.items() if name.startswith("Why")), "").strip().split("\n\n")[0]
    return Texts(all_causes()[cause].title, _line(head), _line(why), _line(sections.get("How to fix", "")))


def number_of(cause: str, name: str) -> str:
    """A threshold of a cause as PromQL writes it."""
    value = getattr(importlib.import_module(f"unslow.think.causes.{cause}"), name)
    return str(int(value)) if value == int(value) else repr(float(value))


def _sections(text: str) -> tuple[str, dict[str, str]]:
    head, *rest = _HEADING.split(text)
    return head, dict(zip(rest[::2], rest[1::2], strict=True))


def _line(text: str) -> str:
    """One line without anything that a template would read, cut after a whole item or sentence."""
    joined = _SPACE.sub(" ", _ITEM.sub("; ", text.strip().removeprefix("- "))).replace(":; ", ": ")
    plain = joined.replace("{{", "{").replace("}}", "}").strip()
    if len(plain) <= LONGEST:
        return plain
    whole = max(plain.rfind(end, 0, LONGEST) for end in (". ", "; "))
    return plain[: whole + 1].rstrip(";") + " …"
