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
OTHER_HOMES = {"EXL": "ExLlama (TabbyAPI)", "MLX": "MLX-LM on Apple silicon"}
"""Formats that neither vLLM nor Transformers loads, by how their names begin, and who does
(EXL3: https://github.com/vllm-project/vllm/issues/19896)."""


class Chosen(NamedTuple):
    """A format: a scheme of quantisation, or None for numbers that are not packed."""

    name: str
    scheme: Scheme | None
    plain_bytes: int = _NARROW
    """Of a number that is not packed."""


def chosen_scheme(meant: Meant, asked: str | None, runtime: str = "vllm") -> tuple[Chosen, tuple[str, ...]]:
    """What is asked for, what the name carries, or what the publisher ships; and a note."""
    if asked:
        chosen = named_scheme(asked, runtime)
        return chosen, overruled(meant, asked, chosen.name, _name(meant.quant, runtime))
    if meant.quant:
        return named_scheme(meant.quant, runtime), ()
    chosen = named_scheme(meant.model.published or "BF16", runtime)
    return chosen, (f"no quant was named: assuming {chosen.name}, as its publisher ships it",)


def named_scheme(word: str, runtime: str) -> Chosen:
    """The format that a word means; UserError where there is none, or this runtime does not load it."""
    if plain := _PLAIN.get(word.upper()):
        return Chosen(plain[0], None, plain[1])
    if _is_mix(word):
        hint = "name a format of safetensors, such as --quant BF16, FP8, AWQ or GPTQ-Int4, or try --runtime llama_cpp"
        raise UserError(f"{word} is a quant of GGUF files; this runtime's memory for those is not known", hint)
    scheme = find_scheme(word, without=OTHER_HOMES)
    if home := next((home for name, home in OTHER_HOMES.items() if scheme.packing.name.startswith(name)), None):
        hint = "name a format that it loads, such as --quant FP8, AWQ or GPTQ-Int4"
        raise UserError(f"{runtime} does not load {scheme.packing.name}: that is for {home}", hint)
    several = len(scheme.packing.bits) > 1 or scheme.packing.bits_between != (0, 0)
    name = f"{scheme.packing.name} {scheme.bits:g}-bit" if several else scheme.packing.name
    return Chosen(name, scheme)


def _name(word: str, runtime: str) -> str:
    try:
        return named_scheme(word, runtime).name if word else ""
    except UserError:
        return ""


def _is_mix(word: str) -> bool:
    """Whether only llama.cpp knows the word."""
    return _knows(find_mix, word) and not _knows(find_scheme, word)


def _knows(find: Callable[[str], object], word: str) -> bool:
    try:
        find(word)
    except UserError:
        return False
    return True
