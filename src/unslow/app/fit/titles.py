"""What a model is called in a report: what its header says, unless its file's name tells more."""

import re
from difflib import SequenceMatcher
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

_LONGEST = 80
_LIKE = 0.5
_MEANINGLESS = re.compile(r"sha256[-_:]?[0-9a-f]{12,}|[0-9a-f]{32,}|(?:ggml-)?model(?:[-_.].*)?|standard input|")
_PART = re.compile(r"-\d{5}-of-\d{5}$")


def title(stated: str, source: str) -> str:
    """One line: the name in the header where the file's name is like it or tells nothing, else the file's."""
    stated, stem = one_line(stated), _stem(source)
    tells_nothing = _MEANINGLESS.fullmatch(stem.lower()) is not None
    if stated and (tells_nothing or _alike(stated, stem)):
        return stated
    return stem or stated or "a model"


def one_line(text: str) -> str:
    """Text without line breaks and what else is not to be seen, and not longer than a line."""
    seen = "".join(c if c.isprintable() else " " for c in text[: 4 * _LONGEST])
    short = " ".join(seen.split())
    return short if len(short) <= _LONGEST else short[: _LONGEST - 1] + "…"


def _stem(source: str) -> str:
    path = unquote(urlsplit(source).path) if source.lower().startswith(("http://", "https://")) else source
    name = PurePosixPath(path).name
    ending = re.search(r"\.(?:gguf|safetensors|bin)(?:[-.]\w+)?$", name, re.IGNORECASE)
    return one_line(_PART.sub("", name[: ending.start()] if ending else name))


def _alike(one: str, other: str) -> bool:
    first, second = (re.sub(r"[^a-z0-9]", "", text.lower()) for text in (one, other))
    if not first or not second:
        return False
    return first in second or second in first or SequenceMatcher(None, first, second).ratio() > _LIKE
