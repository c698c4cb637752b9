"""How ggml stores numbers: each type's block, the mixes of types that files are made of, and how names carry them."""

import re
from difflib import SequenceMatcher
from functools import cache, cached_property
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from unslow.catalog import entries
from unslow.facts.errors import UserError

Role: TypeAlias = Literal["attn_v", "attn_k", "attn_q", "attn_output", "ffn_up", "ffn_gate", "ffn_down"]
Layers: TypeAlias = Literal[
    "all", "first two", "first four", "first sixteenth", "first eighth", "middle", "both ends and every third"
]
_USUAL_COUNTS = 0.2  # of the likeness of two names
_PUBLISHERS_OWN = re.compile(r"^ud(?=q|iq|tq|bf|f)|^apex|^dynamic")
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
_LLAMA_CPP = r"(?:ud[-_])?(?:i?q|tq)\d\w*|bf16|f16|fp16|f32|fp32|mxfp4(?:_moe)?"
_OTHERS = (
    r"(?:unsloth-)?bnb|bitsandbytes|nf4|awq|gptq|hqq|exl[23]|mlx|nvfp4|w\d{1,2}a\d{1,2}|int-?[48]"
    r"|fp8(?:[-_](?:dynamic|static|block|tensor|channel))?|\d-?bit|\d(?:\.\d{1,3})?-?bpw|\d{2,4}g|g\d{2,4}"
)
_PUNCTUATION = r"[-_.:@\s]"
_QUANT = re.compile(rf"{_PUNCTUATION}({_LLAMA_CPP}|{_OTHERS})(?=$|{_PUNCTUATION})", re.IGNORECASE)
_OF_LLAMA_CPP = re.compile(_LLAMA_CPP, re.IGNORECASE)
_BITS = re.compile(r"\d-?bit", re.IGNORECASE)
_TRAINED_FOR_Q4_0 = re.compile(r"gemma.{0,200}[-_]qat\b", re.IGNORECASE)  # Google's models for quants are all for Q4_0


class FileType(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mix, as `general.file_type` names it; `output` is there where this program can make one up."""

    name: str
    id: int
    label: str  # What llama.cpp prints for it, as in `Q4_K - Medium`
    more_bits: str = ""  # The type of half of the attn_v and ffn_down tensors; empty where they are like the others
    output: str = ""  # The type of the output matrix, and of a token table that is used as one


class Quant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ggml type."""

    name: str
    ggml_type: int
    block_elements: int
    block_bytes: int
    source: str
    fallback: str = ""
    """What llama.cpp uses for rows that are no multiple of the block (llama-quant.cpp, tensor_type_fallback)."""
    half_fields: dict[int, float] = {}
    """The fp16 fields of a block by byte offset, and values that turn random blocks into weights of about ±0.02."""
    file_types: tuple[FileType, ...] = ()

    def bytes_of(self, elements: int) -> int:
        """The size of so many elements in whole blocks."""
        return -(-elements // self.block_elements) * self.block_bytes


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tensors that get another type than the main one, where all conditions hold."""

    type: str
    tensors: tuple[Role, ...] = ()  # All tensors where empty
    layers: Layers = "all"
    by_count: bool = False  # Whether tensors are counted even where there are experts, and so several in a layer
    heads_sharing: int = 0  # At least this many query heads share a key head
    experts: int = 0  # Exactly this many; 0 for any number
    experts_at_least: int = 0
    architecture: str = ""
    stacked: bool = False  # Whether only tensors of three dimensions, which is how experts are stored, are meant
    matrix: bool | None = None  # Only with, or only without, an importance matrix


class Mix(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A mix; the first rule that fits a tensor decides, and the main type is for those that none fits."""

    name: str
    source: str
    bits_per_weight: float  # Of Llama 3.1 8B, as llama-quantize prints it
    usual: bool = False  # Whether publishers offer it as a matter of course
    aliases: tuple[str, ...] = ()
    like: str = ""  # The mix whose rules hold for the rest, where a publisher changed the two tables only
    main: str = ""  # Where it is not the type that the file type is named after
    output: str = "Q6_K"  # The output matrix, and a token table that is used as one; Q8_0 stays
    token_table: str = ""  # A token table that is only looked up; the main type where empty
    tables: str = ""  # Both tables, whatever else holds, where the publisher sets them
    spares_attention: bool = True  # Whether models of 8 experts or 70B get more bits in attn_k and attn_v
    needs_matrix: bool = False  # Whether llama-quantize refuses to make it without an importance matrix
    rules: tuple[Rule, ...] = ()

    @cached_property
    def main_type(self) -> Quant:
        return quants()[self.main] if self.main else self.file_type[1]

    @property
    def file_type(self) -> tuple[FileType, Quant]:
        """What `general.file_type` says of such a file, and the type that this is named after."""
        return file_type_of_mix(self.like or self.name)


class EstimatedMix(NamedTuple):
    """A quant whose tensors' types do not follow from its name, by the nearest mix."""

    word: str
    mix: Mix
    factor: float  # Its weights against those of the mix, about
    off: float  # How far that may be off, as a share

    @property
    def note(self) -> str:
        scaled = "" if self.factor == 1 else f" x {self.factor:g}"
        own = "its name does not say which tensors have which type"
        return f"{self.word} is an estimate, {self.mix.name}{scaled}: {own}; sizes are within about {self.off:.0%}"


class Sensitive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group of tensors by parts of their names."""

    why: str
    source: str
    architectures: tuple[str, ...] = ()  # Every one where empty
    kept: tuple[str, ...] = ()  # Not quantised
    kept_names: tuple[str, ...] = ()  # The same, of whole names
    f32: tuple[str, ...] = ()  # Of full precision in a file of 16 bits
    eight_bits: tuple[str, ...] = ()  # Q8_0 in every mix of quantised types
    stored: str = ""  # The type of the kept ones, where the model is published in a quantised one


@cache
def quants() -> dict[str, Quant]:
    """Every type by name."""
    return {q.name: q for q in entries("quants", Quant).values()}


@cache
def quants_by_ggml_type() -> dict[int, Quant]:
    """Every type by the number that a GGUF file uses for it."""
    return {q.ggml_type: q for q in quants().values()}


@cache
def file_types() -> dict[int, tuple[FileType, Quant]]:
    """Every mix and its main type, by the value of `general.file_type`."""
    return {f.id: (f, q) for q in quants().values() for f in q.file_types}


def file_type_of_mix(name: str) -> tuple[FileType, Quant]:
    """The mix of that name and its main type; KeyError where there is none."""
    return _mixes()[name]


@cache
def _mixes() -> dict[str, tuple[FileType, Quant]]:
    return {f.name: (f, q) for f, q in file_types().values()}


@cache
def mixes() -> dict[str, Mix]:
    """Every mix that follows from its name, by name; a publisher's change of the tables inherits the rest."""
    found = {m.name: m for m in entries("mixes", Mix).values()}
    for name, one in found.items():
        if one.like:
            inherited = {f: getattr(found[one.like], f) for f in ("main", "output", "rules", "spares_attention")}
            found[name] = msgspec.structs.replace(one, **inherited)
    return found


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
            f"{word} is a publisher's own mix, with tensor types chosen for each model",
            f"Give the file itself, or a mix defined by its name, such as {near[0]}",
        )
    if wanted in {_plain(f.name) for f, _ in file_types().values()}:
        raise UserError(f"{word}: the publisher decides which tensors have this type", "Give the file itself")
    raise UserError(f"there is no quant {word!r}", f"Did you mean {' or '.join(near)}?")


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


@cache
def sensitive(architecture: str) -> tuple[Sensitive, ...]:
    """The groups that an architecture has to do with."""
    groups = entries("sensitive", Sensitive).values()
    return tuple(g for g in groups if not g.architectures or architecture in g.architectures)


def split_quant(name: str) -> tuple[str, str]:
    """A name without its quant, and the quant, which is empty where the name carries none."""
    words = _QUANT.findall(name)
    for_llama_cpp = [word for word in words if _OF_LLAMA_CPP.fullmatch(word)]
    if for_llama_cpp:
        quant = for_llama_cpp[-1]
    elif len(words) == 1 and _BITS.fullmatch(words[0]):  # with nothing but its bits, it is MLX's
        quant = f"MLX {words[0]}"
    else:  # all words, such as GPTQ and Int4
        quant = " ".join(words) or ("Q4_0" if _TRAINED_FOR_Q4_0.search(name) else "")
    return _QUANT.sub("", name), quant
