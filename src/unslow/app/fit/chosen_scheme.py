"""The format in which vLLM and Transformers would have a model that is known by name only."""

from collections.abc import Callable
from typing import NamedTuple

from unslow.app.fit.names import Meant, overruled
from unslow.catalog.mixes import find_mix
from unslow.catalog.packings import Scheme
from unslow.catalog.scheme_words import find_scheme
from unslow.facts.errors import UserError

_NARROW, _WIDE = 2, 4
_PLAIN = {
    "BF16": ("BF16", _NARROW), "BFLOAT16": ("BF16", _NARROW), "F16": ("F16", _NARROW), "FP16": ("F16", _NARROW),
    "FLOAT16": ("F16", _NARROW), "F32": ("F32", _WIDE), "FP32": ("F32", _WIDE), "FLOAT32": ("F32", _WIDE),
}  # fmt: skip
"""Each way to write an unpacked type: its name, and the bytes of a number."""


class Chosen(NamedTuple):
    """A format: a scheme of quantisation, or None for numbers that are not packed."""

    name: str
    scheme: Scheme | None
    plain_bytes: int = _NARROW
    """Of a number that is not packed."""


def chosen_scheme(meant: Meant, asked: str | None) -> tuple[Chosen, tuple[str, ...]]:
    """What is asked for, what the name carries, or what the publisher ships; and a note."""
    if asked:
        chosen = _named(asked)
        return chosen, overruled(meant, asked, chosen.name, _name(meant.quant))
    if meant.quant:
        return _named(meant.quant), ()
    chosen = _named(meant.model.published or "BF16")
    return chosen, (f"no quant was named: assuming {chosen.name}, as its publisher ships it",)


def _named(word: str) -> Chosen:
    if plain := _PLAIN.get(word.upper()):
        return Chosen(plain[0], None, plain[1])
    if _is_mix(word):
        hint = "name a format of safetensors, such as --quant BF16, FP8, AWQ or GPTQ-Int4, or try --runtime llama_cpp"
        raise UserError(f"{word} is a quant of GGUF files; this runtime's memory for those is not known", hint)
    scheme = find_scheme(word)
    several = len(scheme.packing.bits) > 1 or scheme.packing.bits_between != (0, 0)
    name = f"{scheme.packing.name} {scheme.bits:g}-bit" if several else scheme.packing.name
    return Chosen(name, scheme)


def _name(word: str) -> str:
    return _named(word).name if word and _knows(_named, word) else ""


def _is_mix(word: str) -> bool:
    """Whether only llama.cpp knows the word."""
    return _knows(find_mix, word) and not _knows(find_scheme, word)


def _knows(find: Callable[[str], object], word: str) -> bool:
    try:
        find(word)
    except UserError:
        return False
    return True
