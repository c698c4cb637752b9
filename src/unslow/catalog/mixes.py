"""The mixes of types that files are made of: which tensors get more bits than the main type, and which fewer."""

import re
from difflib import SequenceMatcher
from functools import cache, cached_property
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from unslow.catalog import entries
from unslow.catalog.quants import FileType, Quant, file_types, mix, quants
from unslow.facts.errors import UserError

Role: TypeAlias = Literal["attn_v", "attn_k", "attn_q", "attn_output", "ffn_up", "ffn_gate", "ffn_down"]
Layers: TypeAlias = Literal[
    "all", "first two", "first four", "first sixteenth", "first eighth", "middle", "both ends and every third"
]

_USUAL_COUNTS = 0.2  # of the likeness of two names
_PUBLISHERS_OWN = re.compile(r"^ud(?=q|iq|tq|bf|f)|^apex|^dynamic")


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tensors that get another type than the main one, where all conditions hold."""

    type: str
    tensors: tuple[Role, ...] = ()
    """All tensors where empty."""
    layers: Layers = "all"
    by_count: bool = False
    """Whether tensors are counted even where there are experts, and so several in a layer."""
    heads_sharing: int = 0
    """At least so many query heads share a key head."""
    experts: int = 0
    """Exactly so many; 0 for any number."""
    experts_at_least: int = 0
    architecture: str = ""
    stacked: bool = False
    """Whether only tensors of three dimensions, which is how experts are stored, are meant."""
    matrix: bool | None = None
    """Only with, or only without, an importance matrix."""


class Mix(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A mix; the first rule that fits a tensor decides, and the main type is for those that none fits."""

    name: str
    source: str
    bits_per_weight: float
    """Of Llama 3.1 8B, as llama-quantize prints it."""
    usual: bool = False
    """Whether publishers offer it as a matter of course."""
    aliases: tuple[str, ...] = ()
    like: str = ""
    """The mix whose rules hold for the rest, where a publisher changed the two tables only."""
    main: str = ""
    """Where it is not the type that the file type is named after."""
    output: str = "Q6_K"
    """The output matrix, and a token table that is used as one; Q8_0 stays."""
    token_table: str = ""
    """A token table that is only looked up; the main type where empty."""
    tables: str = ""
    """Both tables, whatever else holds, where the publisher sets them."""
    spares_attention: bool = True
    """Whether models of 8 experts or 70B get more bits in attn_k and attn_v."""
    needs_matrix: bool = False
    """Whether llama-quantize refuses to make it without an importance matrix."""
    rules: tuple[Rule, ...] = ()

    @cached_property
    def main_type(self) -> Quant:
        """The type of most tensors."""
        return quants()[self.main] if self.main else self.file_type[1]

    @property
    def file_type(self) -> tuple[FileType, Quant]:
        """What `general.file_type` says of such a file, and the type that this is named after."""
        return mix(self.like or self.name)


@cache
def mixes() -> dict[str, Mix]:
    """Every mix that follows from its name, by name; a publisher's change of the tables inherits the rest."""
    found = {m.name: m for _, m in entries("mixes", Mix)}
    return {name: _inheriting(m, found) for name, m in found.items()}


def _inheriting(one: Mix, found: dict[str, Mix]) -> Mix:
    if not one.like:
        return one
    inherited = {f: getattr(found[one.like], f) for f in ("main", "output", "rules", "spares_attention")}
    return msgspec.structs.replace(one, **inherited)


@cache
def mixes_from_large_to_small() -> tuple[Mix, ...]:
    """The mixes that publishers usually offer, the largest first."""
    return tuple(sorted((m for m in mixes().values() if m.usual), key=lambda m: -m.bits_per_weight))


def find_mix(word: str) -> Mix:
    """The mix that a word means, whatever its case and punctuation; UserError where there is none."""
    word = word[:64]
    wanted = _plain(word)
    found = _by_word().get(wanted)
    if found:
        return found
    near = _near(wanted)
    if _PUBLISHERS_OWN.match(wanted):
        raise UserError(
            f"{word} is a publisher's own mix: each tensor's type is chosen for each model",
            f"Give the file itself, or a mix that follows from its name, such as {near[0]}",
        )
    if wanted in {_plain(f.name) for f, _ in file_types().values()}:
        raise UserError(f"{word}: which tensors are of this type is the publisher's choice", "Give the file itself")
    raise UserError(f"there is no quant {word!r}", f"Did you mean {' or '.join(near)}?")


class EstimatedMix(NamedTuple):
    """A quant whose tensors' types do not follow from its name, by the nearest mix."""

    word: str
    mix: Mix
    factor: float
    """Its weights against those of the mix, about."""
    off: float
    """How far that may be off, as a share."""

    @property
    def note(self) -> str:
        """What to say of it."""
        scaled = "" if self.factor == 1 else f" x {self.factor:g}"
        own = "which tensors have which type does not follow from its name"
        return f"{self.word} is an estimate, {self.mix.name}{scaled}: {own}; sizes are within about {self.off:.0%}"


_ESTIMATES = {
    "q2kxl": ("Q2_K", 0.95, 0.2), "q3kxl": ("Q3_K_M", 1.01, 0.05), "q4kxl": ("Q4_K_M", 1.05, 0.05),
    "q5kxl": ("Q5_K_M", 1.1, 0.05), "q6kxl": ("Q6_K", 1.13, 0.05), "q8kxl": ("Q8_0", 1.1, 0.3),
    "nvfp4": ("Q4_0", 1.0, 0.1),
}  # fmt: skip
"""Sizes of unsloth's files against those mixes: Qwen3.6-35B-A3B UD-Q2_K_XL 11.4, UD-Q3_K_XL 15.7, UD-Q5_K_XL 24.8,
UD-Q6_K_XL 29.7, UD-Q8_K_XL 35.8 GiB; Qwen3.6-27B UD-Q6_K_XL 23.88 GiB; gemma-4-12b UD-Q6_K_XL 9.94 GiB;
gemma-4-26B-A4B UD-Q4_K_XL 17.01 GiB (huggingface.co/unsloth, as people list them, 2026). Of models below 3B the tables
weigh more: Qwen3.5-2B UD-Q8_K_XL is 1.45 times Q8_0, Gemma 4 E2B UD-Q2_K_XL 0.75 times Q2_K.
NVFP4 has 4.5 bits, as Q4_0 has."""
_SAME_NAME = (1.04, 0.05)
"""UD-Q4_K_M of Qwen3.6-35B-A3B is 1.05 times Q4_K_M (20.6 GiB), UD-Q6_K 1.03 times Q6_K (27.3 GiB)."""
_BITS_ALONE = {"2": "Q2_K", "3": "Q3_K_M", "4": "Q4_K_M", "5": "Q5_K_M", "6": "Q6_K", "8": "Q8_0"}
_OF_BITS = 0.1


def estimated_mix(word: str) -> EstimatedMix | None:
    """The estimate for a publisher's own mix (UD-Q4_K_XL), and for bits without a mix (int4, 4bit); None for others."""
    word = word[:64].strip()
    plain = _plain(word)
    if plain in _by_word():
        return None
    bare = plain.removeprefix("ud")
    if bare in _ESTIMATES:
        name, factor, off = _ESTIMATES[bare]
        return EstimatedMix(word.upper(), mixes()[name], factor, off)
    if bare in _by_word():
        return EstimatedMix(word.upper(), _by_word()[bare], *_SAME_NAME)
    bits = re.fullmatch(r"int([2-8])|([2-8])bits?", plain)
    name = _BITS_ALONE.get(bits[1] or bits[2], "") if bits else ""
    return EstimatedMix(word, mixes()[name], 1.0, _OF_BITS) if name else None


@cache
def _by_word() -> dict[str, Mix]:
    """By name, alias, and the words in which llama.cpp describes a file type."""
    words = {_plain(f.label): mixes()[f.name] for f, _ in file_types().values() if f.name in mixes()}
    words |= {_plain(alias): m for m in mixes().values() for alias in m.aliases}
    return words | {_plain(name): m for name, m in mixes().items()}


def _near(wanted: str) -> list[str]:
    """Three names of as many bits that look alike, the usual ones rather; without a number, all the usual ones."""
    digit = re.search(r"\d", wanted)
    if not digit:
        return [m.name for m in mixes_from_large_to_small()]
    bare = _PUBLISHERS_OWN.sub("", wanted).replace("xl", "m")
    alike = [m for m in mixes().values() if (found := re.search(r"\d", m.name)) and found[0] == digit[0]]
    alike.sort(
        key=lambda m: SequenceMatcher(None, bare, _plain(m.name)).ratio() + _USUAL_COUNTS * m.usual, reverse=True
    )
    return [m.name for m in alike[:3]] or [m.name for m in mixes_from_large_to_small()]


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", word.lower())
