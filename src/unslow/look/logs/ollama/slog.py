"""Lines as Ollama writes them, `time=... level=INFO msg="several words" key=value`, and the way people quote them.

A quoted line may have lost its head, its quotes or its brackets; so the fields are found wherever they stand.
"""

import re
from typing import NamedTuple

from unslow.facts.masking import masked_text

LONGEST_LINE = 8192
MOST_MESSAGE = 300

_FIELD = re.compile(
    r"(?<![\w.])([A-Za-z_][\w.]{0,60})="
    r'(?:"((?:[^"\\]|\\.)*)'  # "in quotes", or cut off inside them
    r"|(\[[^\]]*\]?)"  # [a list]
    r'|((?:[^\s",;\[\]{}]|,(?=\d))+(?:\s[KMGT]?i?B\b)?))'  # bare; a size keeps its unit
)
_TIME = re.compile(r"\b(\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d)|\b(\d{1,2}:\d\d(?::\d\d)?)\b")
_ESCAPED = re.compile(r"\\(.)")
_TARGET = re.compile(r"\bgfx[0-9a-f]{3,5}\b")
"""What AMD calls the architecture of a GPU; the field that holds it has changed its name."""


class Line(NamedTuple):
    """One line, taken apart."""

    text: str
    fields: dict[str, str]
    where: str

    @property
    def at(self) -> str:
        """When it was written, as it says itself; empty where it does not."""
        found = _TIME.search(self.text)
        return self.fields.get("time", found[0] if found else "")[:40]

    def said(self) -> str:
        """What the line tells a person, without what could name one."""
        message = self.fields.get("msg", "")
        if not message:
            return masked_text(self.text.strip())[:MOST_MESSAGE]
        more = (self.fields.get(name, "") for name in ("error", "hint", "required_driver", "type", "value"))
        target = "" if _TARGET.search(message) else next(filter(_TARGET.fullmatch, self.fields.values()), "")
        said = ": ".join(part for part in (message, target, *more) if part)
        return masked_text(said)[:MOST_MESSAGE]


def parse_line(text: str, where: str) -> Line:
    """The fields of a line by name; of one that is given twice the first."""
    text = text[:LONGEST_LINE]
    if '=\\"' in text:
        text = text.replace('\\"', '"')  # a line inside JSON, as `docker inspect` and log collectors keep it
    fields: dict[str, str] = {}
    for name, quoted, listed, bare in _FIELD.findall(text):
        fields.setdefault(name, _ESCAPED.sub(r"\1", quoted) if quoted else listed or bare.rstrip("."))
    return Line(text, fields, where)
