"""HTML written so that text stays text: a plain string is escaped, only `Markup` is taken as it is."""

from collections.abc import Iterable
from html import escape

Attribute = str | float | bool | None
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Markup(str):
    """HTML that is ready: whoever makes one has escaped what is in it."""

    __slots__ = ()


Child = str | Markup | None
NOTHING = Markup("")


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element; `class_` and `data_copy` are the attributes class and data-copy, None and False leave one out."""
    start = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Markup(start) if name in _VOID else Markup(f"{start}{joined(children)}</{name}>")


def joined(children: Iterable[Child]) -> Markup:
    """Children one after the other, plain text escaped."""
    return Markup("".join(child if isinstance(child, Markup) else escape(child) for child in children if child))


def text(said: str) -> Markup:
    """A sentence in which single backticks mark code."""
    parts = said.split("`")
    if len(parts) % 2 == 0:  # one that is never closed is a character like any other
        return joined([said])
    return joined(tag("code", part) if number % 2 else part for number, part in enumerate(parts))


def sentence(said: str) -> Markup:
    """A sentence that begins with a capital and ends with a stop."""
    said = said.strip()
    end = "" if not said or said.endswith((".", "!", "?", "…", ":")) else "."
    return text(f"{begun(said)}{end}")


def begun(said: str) -> str:
    """What begins with a capital, unless that would spoil an address or a name of a program's own."""
    first = said.partition(" ")[0]
    return said if "://" in first or "_" in first else f"{said[:1].upper()}{said[1:]}"


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.removesuffix("_").replace("_", "-")
    if value is True:
        return f" {name}"
    shown = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {name}="{escape(shown)}"'
