"""How ggml stores numbers: the size of each type's block, and the mixes of types that files are made of."""

from functools import cache

import msgspec

from unslow.catalog import entries


class FileType(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mix, as `general.file_type` names it; `output` is there where this program can make one up."""

    name: str
    id: int
    label: str
    """What llama.cpp prints for it, as in `Q4_K - Medium`."""
    more_bits: str = ""
    """The type of half of the attn_v and ffn_down tensors; empty where they are like the others."""
    output: str = ""
    """The type of the output matrix, and of a token table that is used as one."""


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


@cache
def quants() -> dict[str, Quant]:
    """Every type by name."""
    return {q.name: q for _, q in entries("quants", Quant)}


@cache
def quants_by_ggml_type() -> dict[int, Quant]:
    """Every type by the number that a GGUF file uses for it."""
    return {q.ggml_type: q for q in quants().values()}


@cache
def file_types() -> dict[int, tuple[FileType, Quant]]:
    """Every mix and its main type, by the value of `general.file_type`."""
    return {f.id: (f, q) for q in quants().values() for f in q.file_types}


def mix(name: str) -> tuple[FileType, Quant]:
    """The mix of that name and its main type; KeyError where there is none."""
    return _mixes()[name]


@cache
def _mixes() -> dict[str, tuple[FileType, Quant]]:
    return {f.name: (f, q) for f, q in file_types().values()}
