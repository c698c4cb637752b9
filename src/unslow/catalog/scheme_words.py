"""The scheme of quantisation that a person means, as models are labelled: `AWQ`, `gptq-8bit-32g`, `EXL2 4.65bpw`."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cache

from unslow.catalog.packings import Packing, Scheme, packings, scheme
from unslow.facts.errors import UserError

_BITS = re.compile(r"(?<!\d)(\d{1,2}(?:\.\d{1,4})?)[ _-]?(?:bits?|bpw)\b")
_INTEGER = re.compile(r"(?<![a-z])int[ _-]?(\d{1,2})\b")
_GROUP = re.compile(r"(?<![a-z\d])(?:g|gs|group[ _-]?(?:size)?)[ _-]?(\d{1,5})\b|(?<![a-z\d])(\d{1,5})g\b")


def find_scheme(words: str, without: Iterable[str] = ()) -> Scheme:
    """The scheme that words mean, whatever their case and punctuation; UserError where there is none.

    Names that begin with one of `without` are not suggested then.
    """
    words = words[:64]
    text = words.lower()
    found = next((p for said in _said(text) if (p := _by_word().get(_plain(said)))), None)
    if not found:
        offered = {word: p.name for word, p in _by_word().items() if not p.name.startswith(tuple(without))}
        near = get_close_matches(_plain(text), offered, n=3, cutoff=0.4)
        names = dict.fromkeys(offered[n] for n in near) or dict.fromkeys(offered.values())
        raise UserError(f"there is no quant {words!r}", f"Did you mean {' or '.join(names)}?")
    bits, group = _BITS.search(text) or _INTEGER.search(text), _GROUP.search(text)
    return scheme(
        found.name, float(bits[1]) if bits else None, int(group[1] or group[2]) if group and found.groups else None
    )


def _said(text: str) -> Iterator[str]:
    """The words with less and less of what may be a choice and no name."""
    yield text
    for choice in (_GROUP, _BITS, _INTEGER):
        text = choice.sub(" ", text)
        yield text


@cache
def _by_word() -> dict[str, Packing]:
    return {_plain(word): p for p in packings().values() for word in (*p.aliases, p.name)}


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
