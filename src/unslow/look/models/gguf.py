"""GGUF, the format of llama.cpp, Ollama and LM Studio: what a model is, from the header of its file or files."""

import re
import stat
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from unslow.catalog.quants import file_types
from unslow.facts.model import Model
from unslow.facts.values import Absence, Fact, Known, estimated, not_found, reported
from unslow.look.models.gguf_header import Header, Tensor, Value, read_header
from unslow.look.system import LookError, System

MOST_PARTS = 512
MOST_ITEMS = 16_000_000  # ten times what the largest vocabulary takes
MOST_LAYERS = 4096
LARGEST_COUNT = 2**53

_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")
_LAYER = re.compile(r"blk\.(\d{1,4})\.")
_EXPERT = re.compile(r"_(?:ch)?exps\.|\.ffn_(?:gate|up|down)\.\d+\.")  # all in one tensor, or one tensor each (2024)
_GUESSED = 1024  # llama.h, LLAMA_FTYPE_GUESSED: a flag on top of the file type


class Tensors(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of a model's tensors by what they are for."""

    count: int
    elements: int
    bytes: int
    layer_bytes: list[int]
    expert_bytes: int
    token_table_bytes: int
    layer_table_bytes: int
    """A second table that is only looked up, such as Gemma 3n's."""
    output_bytes: int
    """0 where the token table is the output matrix too."""
    type_bytes: dict[str, int]


class Gguf(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a model in one file or in several parts."""

    path: str
    file_bytes: int
    metadata: dict[str, Value]
    array_lengths: dict[str, int]
    tensors: Tensors


def read_gguf(system: System, path: str) -> Gguf:
    """The header of the model at `path`, with all of its parts; the weights stay where they are."""
    raw = system.ask(f"gguf {path}", lambda: msgspec.to_builtins(_gguf(path)))
    try:
        return msgspec.convert(raw, Gguf)
    except msgspec.ValidationError as error:
        raise LookError(f"{path}: the recorded header does not fit: {error}") from error


def _gguf(path: str) -> Gguf:
    headers, file_bytes, items = [], 0, 0
    for part in part_paths(path):
        header, size = _read_part(part)
        items += len(header.tensors) + sum(header.array_lengths.values())
        if items > MOST_ITEMS:
            raise LookError(f"{path}: its parts have headers of more than {MOST_ITEMS} items together")
        headers.append(header)
        file_bytes += size
    return Gguf(
        path=path,
        file_bytes=file_bytes,
        metadata={k: v for h in reversed(headers) for k, v in h.metadata.items()},  # the first part has the last word
        array_lengths={k: n for h in reversed(headers) for k, n in h.array_lengths.items()},
        tensors=summary([t for h in headers for t in h.tensors]),
    )


def part_paths(path: str) -> list[str]:
    """The files of a model, from the path of any of them."""
    match = _PART.fullmatch(path)
    if not match:
        return [path]
    stem, count = match[1], int(match[3])
    if not 0 < int(match[2]) <= count <= MOST_PARTS:
        raise LookError(f"{path}: part {int(match[2])} of {count} can't be")
    return [f"{stem}-{n:05}-of-{count:05}.gguf" for n in range(1, count + 1)]


def _read_part(path: str) -> tuple[Header, int]:
    try:
        status = Path(path).stat()
        _check_kind(status.st_mode)
        with Path(path).open("rb") as file:
            return read_header(file, status.st_size), status.st_size
    except LookError as error:
        raise LookError(f"{path}: {error.why}") from error
    except FileNotFoundError as error:
        raise LookError(f"{path}: not there", Absence.NOT_FOUND, _missing_part(path)) from error
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise LookError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _check_kind(mode: int) -> None:
    if not stat.S_ISREG(mode):  # opening a pipe would wait for ever
        raise LookError("is not a file")


def _missing_part(path: str) -> str:
    return "the model needs all of its parts in one folder" if _PART.fullmatch(path) else ""


def summary(tensors: Sequence[Tensor]) -> Tensors:
    """The tensors by what they are for."""
    sizes = {t.name: t.bytes for t in tensors}
    types: Counter[str] = Counter()
    for tensor in tensors:
        types[tensor.type] += tensor.bytes
    return Tensors(
        count=len(tensors),
        elements=sum(t.elements for t in tensors),
        bytes=sum(t.bytes for t in tensors),
        layer_bytes=_layer_bytes(tensors),
        expert_bytes=sum(t.bytes for t in tensors if _EXPERT.search(t.name)),
        token_table_bytes=sizes.get("token_embd.weight", 0),
        layer_table_bytes=sizes.get("per_layer_token_embd.weight", 0),
        output_bytes=sizes.get("output.weight", 0),
        type_bytes=dict(types),
    )


def _layer_bytes(tensors: Sequence[Tensor]) -> list[int]:
    layers: Counter[int] = Counter()
    for tensor in tensors:
        if (match := _LAYER.match(tensor.name)) and int(match[1]) < MOST_LAYERS:
            layers[int(match[1])] += tensor.bytes
    return [layers[n] for n in range(max(layers, default=-1) + 1)]


def model_facts(gguf: Gguf, source: str = "") -> Model:
    """The model that the header describes; `source` names the file, by default its path."""
    keys = _Keys(gguf, source or gguf.path)
    heads, width = keys.count("attention.head_count"), keys.count("embedding_length")
    head_length = _quotient(width, heads)
    experts = keys.count("expert_count", reported(0, f"{keys.source}: no expert_count"))
    return Model(
        name=keys.text("general.name"),
        path=reported(gguf.path, keys.source),
        architecture=keys.text("general.architecture"),
        quant=_quant(keys),
        layers=keys.count("block_count"),
        context_trained=keys.count("context_length"),
        width=width,
        heads=heads,
        kv_heads=keys.count("attention.head_count_kv", heads),
        key_length=keys.count("attention.key_length", head_length),
        value_length=keys.count("attention.value_length", head_length),
        vocabulary=_vocabulary(keys),
        experts=experts,
        experts_used=keys.count("expert_used_count", reported(0, f"{keys.source}: no expert_used_count")),
        expert_width=_expert_width(keys, experts),
        made_up=reported(gguf.metadata.get("unslow.made_up") is True, f"{keys.source}: unslow.made_up"),
        **_sizes(gguf.tensors, f"{keys.source}: tensors"),
    )


class _Keys:
    """Metadata as facts; keys without a dot in front belong to the architecture."""

    def __init__(self, gguf: Gguf, source: str) -> None:
        self.gguf, self.source = gguf, source
        self._architecture = gguf.metadata.get("general.architecture")

    def count(self, key: str, default: Fact[int] | None = None) -> Fact[int]:
        """A whole number; of a list with one for each layer, the largest."""
        return self.number(f"{self._architecture}.{key}", default)

    def number(self, key: str, default: Fact[int] | None = None) -> Fact[int]:
        value = self.gguf.metadata.get(key)
        if isinstance(value, list):
            value = max(value, default=None)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT:
            return reported(value, f"{self.source}: {key}")
        return default if default is not None else not_found(f"{self.source} has no {key}")

    def text(self, key: str) -> Fact[str]:
        value = self.gguf.metadata.get(key)
        if isinstance(value, str) and value:
            return reported(value, f"{self.source}: {key}")
        return not_found(f"{self.source} has no {key}")


def _quotient(width: Fact[int], heads: Fact[int]) -> Fact[int]:
    """A head's share of the width, which is its length where the header gives none."""
    if isinstance(width, Known) and isinstance(heads, Known) and heads.value:
        return estimated(width.value // heads.value, f"{width.source} / {heads.source.rpartition(' ')[2]}")
    return not_found("the header gives neither the length of a head nor width and heads")


def _vocabulary(keys: _Keys) -> Fact[int]:
    tokens = "tokenizer.ggml.tokens"
    length = keys.gguf.array_lengths.get(tokens)
    return keys.count("vocab_size", None if length is None else reported(length, f"{keys.source}: {tokens}"))


def _quant(keys: _Keys) -> Fact[str]:
    """The name of the mix; where the header has none, the type that most bytes are of."""
    file_type = keys.number("general.file_type")
    if isinstance(file_type, Known) and (pair := file_types().get(file_type.value & ~_GUESSED)):
        return reported(pair[0].name, file_type.source)
    types = keys.gguf.tensors.type_bytes
    if not types:
        return not_found(f"{keys.source} has no tensors")
    return estimated(max(types, key=lambda t: types[t]), f"{keys.source}: the type of most tensors")


def _expert_width(keys: _Keys, experts: Fact[int]) -> Fact[int]:
    """The feed-forward width of one expert; 0 in a model without them."""
    if experts.value_or(0) == 0:
        return reported(0, experts.source) if isinstance(experts, Known) else experts
    return keys.count("expert_feed_forward_length", keys.count("feed_forward_length"))


def _sizes(tensors: Tensors, source: str) -> dict[str, Any]:
    names = ("parameters", "weights_bytes", "expert_bytes", "token_table_bytes", "output_bytes", "output_tied")
    if not tensors.count:
        return dict.fromkeys(names, not_found(f"{source}: none"))
    values = (
        tensors.elements,
        tensors.bytes,
        tensors.expert_bytes,
        tensors.token_table_bytes + tensors.layer_table_bytes,
        tensors.output_bytes or tensors.token_table_bytes,
        not tensors.output_bytes,
    )
    return {name: reported(value, source) for name, value in zip(names, values, strict=True)}
