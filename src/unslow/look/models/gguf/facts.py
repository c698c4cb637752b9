"""What a model is, as facts, from the metadata and the tensors of its header."""

from typing import Any

from unslow.catalog.quants import file_types
from unslow.facts.blueprint import Value
from unslow.facts.model import Model
from unslow.facts.tensor_table import Table
from unslow.facts.values import Fact, Known, estimated, not_found, reported
from unslow.look.models.gguf.model import Gguf
from unslow.look.models.gguf.summary import Tensors

LARGEST_COUNT = 2**53

_GUESSED = 1024  # llama.h, LLAMA_FTYPE_GUESSED: a flag on top of the file type


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
        tensors=_tensors(gguf, keys.source),
        metadata=_metadata(gguf, keys.source),
        **_sizes(gguf.tensors, f"{keys.source}: tensors"),
    )


def _tensors(gguf: Gguf, source: str) -> Fact[Table]:
    if gguf.table is None:
        return not_found(f"{source}: the recording has no list of tensors", "record it again")
    return reported(gguf.table, f"{source}: tensors")


def _metadata(gguf: Gguf, source: str) -> Fact[dict[str, Value]]:
    """The architecture's own keys; others name people and paths, and say nothing about memory."""
    prefix = f"{gguf.metadata.get('general.architecture')}."
    return reported({k: v for k, v in gguf.metadata.items() if k.startswith(prefix)}, f"{source}: metadata")


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
