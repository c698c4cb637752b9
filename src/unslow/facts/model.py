"""What a model is: its shape, its tensors and its bytes, never its weights.

And the largest numbers that are believed of one.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from itertools import groupby
from typing import Annotated, NamedTuple, TypeAlias

import msgspec

from unslow.facts.machine import Facts
from unslow.facts.values import NOT_LOOKED, Bytes, Count, Fact

# The largest numbers that are believed of a model, whoever states them: a file, a server, a snapshot.
# A file of a few hundred bytes can claim any number, and time and memory grow with what it claims. Each bound lies well
# above the largest model that is known; a number beyond it is refused by its name, and nothing is made of it.

MOST_LAYERS = 1024  # DeepNet has 1,000 (arXiv 2203.00555); BigLlama-3.1-1T, a merge, 315; llama.cpp takes up to 512
MOST_WIDTH = 2**20  # Megatron-Turing NLG 530B: 20,480
MOST_HEADS = 2**14  # Falcon 180B: 232
MOST_HEAD_LENGTH = 2**16  # DeepSeek V3's latent with its rotated part: 576
MOST_FEED_FORWARD = 2**22  # Megatron-Turing NLG 530B: 81,920
MOST_VOCABULARY = 2**24  # XLM-V: 901,629
MOST_CONTEXT = 2**27  # LTM-2-mini: 100 million; of open weights Llama 4 Scout: 10,485,760
MOST_EXPERTS = 2**16  # Switch-C: 2,048
MOST_OF_ANYTHING = 2**32 - 1  # all that the usual type of a number in GGUF holds; -1 is written so, too
LEAST_CONTEXT = 2  # a token of a prompt, and one of an answer
Layers: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_LAYERS)]
Width: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_WIDTH)]
Heads: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_HEADS)]
HeadLength: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_HEAD_LENGTH)]
FeedForward: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_FEED_FORWARD)]
Vocabulary: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_VOCABULARY)]
Context: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_CONTEXT)]
Experts: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_EXPERTS)]
GGUF_BOUNDS = {
    "block_count": MOST_LAYERS, "nextn_predict_layers": MOST_LAYERS, "num_loops": MOST_LAYERS,
    "decoder_block_count": MOST_LAYERS, "leading_dense_block_count": MOST_LAYERS, "n_deepstack_layers": MOST_LAYERS,
    "attention.shared_kv_layers": MOST_LAYERS, "embedding_length": MOST_WIDTH,
    "attention.head_count": MOST_HEADS, "attention.head_count_kv": MOST_HEADS,
    "attention.indexer.head_count": MOST_HEADS, "attention.key_length": MOST_HEAD_LENGTH,
    "attention.value_length": MOST_HEAD_LENGTH, "attention.key_length_mla": MOST_HEAD_LENGTH,
    "attention.value_length_mla": MOST_HEAD_LENGTH, "attention.key_length_swa": MOST_HEAD_LENGTH,
    "attention.value_length_swa": MOST_HEAD_LENGTH, "attention.indexer.key_length": MOST_HEAD_LENGTH,
    "feed_forward_length": MOST_FEED_FORWARD, "expert_feed_forward_length": MOST_FEED_FORWARD,
    "expert_shared_feed_forward_length": MOST_FEED_FORWARD, "vocab_size": MOST_VOCABULARY,
    "context_length": MOST_CONTEXT, "expert_count": MOST_EXPERTS, "expert_used_count": MOST_EXPERTS,
    "expert_shared_count": MOST_EXPERTS, "expert_group_count": MOST_EXPERTS,
}  # fmt: skip
"""By the keys of an architecture; any other is held to `MOST_OF_ANYTHING`."""
CONFIG_BOUNDS = {
    "layers": MOST_LAYERS, "encoder_layers": MOST_LAYERS, "mtp_layers": MOST_LAYERS, "kv_shared_layers": MOST_LAYERS,
    "dense_layers_first": MOST_LAYERS, "width": MOST_WIDTH, "heads": MOST_HEADS, "kv_heads": MOST_HEADS,
    "global_kv_heads": MOST_HEADS, "linear_key_heads": MOST_HEADS, "linear_value_heads": MOST_HEADS,
    "mamba_heads": MOST_HEADS, "head_dim": MOST_HEAD_LENGTH, "global_head_dim": MOST_HEAD_LENGTH,
    "v_head_dim": MOST_HEAD_LENGTH, "intermediate": MOST_FEED_FORWARD, "expert_intermediate": MOST_FEED_FORWARD,
    "shared_expert_intermediate": MOST_FEED_FORWARD, "dense_intermediate": MOST_FEED_FORWARD,
    "vocabulary": MOST_VOCABULARY, "context": MOST_CONTEXT, "experts": MOST_EXPERTS, "experts_used": MOST_EXPERTS,
    "shared_experts": MOST_EXPERTS,
}  # fmt: skip
"""By the names that `hf_shape` gives the numbers of a `config.json`; any other is held to `MOST_OF_ANYTHING`."""
MOST_TENSORS = 65_536  # Ten times what the largest model has
_LARGEST = 2**53
_LAYER = re.compile(r"blk\.(\d{1,4})\.")
_EXACT_LAYER = re.compile(r"blk\.(0|[1-9][0-9]{0,3})\.")
_ANY_LAYER = "blk.*."
_NO_LAYER = -1
MetadataValue = str | int | float | bool | list[int]


class Tensor(NamedTuple):
    """One tensor; `shape` has the length of a row first, as GGUF has it, and `bytes` is without padding."""

    name: str
    type: str  # The name of a ggml type, such as `Q4_K`
    shape: tuple[int, ...]
    bytes: int


class Table(msgspec.Struct, frozen=True):
    """Tensors in the order of the file, as kinds of layers and which layer is of which kind."""

    kinds: list[list[Tensor]]  # With `*` for the number of the layer in their names
    order: list[tuple[int, int]]  # A kind, and a layer of that kind; -1 where the tensors belong to none


class Model(Facts, frozen=True, kw_only=True):
    """One model as a file or a runtime describes it."""

    name: Fact[str] = NOT_LOOKED
    path: Fact[str] = NOT_LOOKED
    architecture: Fact[str] = NOT_LOOKED
    quant: Fact[str] = NOT_LOOKED
    parameters: Fact[Count] = NOT_LOOKED
    weights_bytes: Fact[Bytes] = NOT_LOOKED
    layers: Fact[Layers] = NOT_LOOKED
    context_trained: Fact[Context] = NOT_LOOKED
    width: Fact[Width] = NOT_LOOKED
    heads: Fact[Heads] = NOT_LOOKED
    kv_heads: Fact[Heads] = NOT_LOOKED
    key_length: Fact[HeadLength] = NOT_LOOKED
    value_length: Fact[HeadLength] = NOT_LOOKED
    vocabulary: Fact[Vocabulary] = NOT_LOOKED
    experts: Fact[Experts] = NOT_LOOKED
    experts_used: Fact[Experts] = NOT_LOOKED
    expert_width: Fact[FeedForward] = NOT_LOOKED
    expert_bytes: Fact[Bytes] = NOT_LOOKED
    token_table_bytes: Fact[Bytes] = NOT_LOOKED
    output_bytes: Fact[Bytes] = NOT_LOOKED
    output_tied: Fact[bool] = NOT_LOOKED
    made_up: Fact[bool] = NOT_LOOKED
    tensors: Fact[Table] = NOT_LOOKED  # Every tensor, layers that are alike once
    metadata: Fact[dict[str, MetadataValue]] = NOT_LOOKED
    """The architecture's own keys of a GGUF file, such as `llama.block_count`."""


class Blueprint(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What a model consists of, from a file's header or made up from a well-known shape."""

    architecture: str
    metadata: dict[str, MetadataValue]  # By the keys of GGUF, such as `llama.block_count`; without long arrays
    tensors: list[Tensor]
    vocabulary: int = 0  # 0 where unknown; then the token table does
    file_bytes: int = 0  # 0 where there is no file

    def check(self) -> None:
        """ValueError where it can't be a model that runs; to be asked once of untrusted input."""
        check_metadata(self.architecture, self.metadata)
        if not self.tensors:
            raise ValueError("holds no weights (vocabulary only)")
        if empty := next((t for t in self.tensors if not all(t.shape) or not t.shape), None):
            raise ValueError(f"has a tensor without elements: {empty.name[:64]!r}")
        if 0 < self.count("context_length", LEAST_CONTEXT) < LEAST_CONTEXT:
            raise ValueError(f"has a context of 1 token; a prompt and an answer need at least {LEAST_CONTEXT}")
        if 0 < self.count("block_count") <= self.count("nextn_predict_layers"):
            raise ValueError("has only layers that predict further tokens (nextn_predict_layers)")

    def number(self, key: str, default: float = 0) -> float:
        """The architecture's number of that key (`block_count`); of one for each layer, the largest."""
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        if isinstance(value, list):
            return max(value, default=default)
        return default if isinstance(value, str) else value

    def count(self, key: str, default: int = 0) -> int:
        """As `number`, where it can only be whole and not negative."""
        return _clamp_count(self.number(key, default))

    def per_layer(self, key: str, layers: int, default: int = 0) -> list[int]:
        """The architecture's number of that key for each layer."""
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        if isinstance(value, list):
            known = [_clamp_count(n) for n in value[:layers]]
            return [*known, *[known[-1] if known else default] * (layers - len(known))]
        return [default if isinstance(value, str) else _clamp_count(value)] * layers

    @cached_property
    def by_name(self) -> dict[str, Tensor]:
        return {t.name: t for t in self.tensors}

    @cached_property
    def weights_bytes(self) -> int:
        return sum(t.bytes for t in self.tensors)

    @cached_property
    def layer_tensors(self) -> list[list[Tensor]]:
        """The tensors of each repeating layer, named without `blk.N.`."""
        layers: list[list[Tensor]] = [[] for _ in range(min(self.count("block_count"), MOST_LAYERS))]
        for tensor in self.tensors:
            match = _LAYER.match(tensor.name)
            if match and int(match[1]) < len(layers):
                layers[int(match[1])].append(tensor._replace(name=tensor.name[match.end() :]))
        return layers


class LayerKind(StrEnum):
    """What a layer keeps of the tokens before."""

    FULL = "full"  # The keys and values of all of them, or their latents
    WINDOW = "window"  # Those of the last `window` tokens
    CHUNK = "chunk"  # Those since the last multiple of `window` (Llama 4)
    RECURRENT = "recurrent"  # A state of fixed size: Mamba, gated delta nets, linear attention
    BARE = "bare"  # Nothing: feed-forward alone


_ATTENDING = frozenset({LayerKind.FULL, LayerKind.WINDOW, LayerKind.CHUNK})


class HfShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The numbers of a decoder; 0 is what it does not have."""

    layers: int  # `num_hidden_layers`
    width: int  # `hidden_size`
    vocabulary: int  # `vocab_size`, as padded in the files
    heads: int  # `num_attention_heads`
    kv_heads: int  # `num_key_value_heads`
    key_length: int  # Of one head: `head_dim`; with a latent, `qk_nope_head_dim` + `qk_rope_head_dim`
    value_length: int  # Of one head: `head_dim`; with a latent, `v_head_dim`
    feed_forward: int = 0  # `intermediate_size` of the layers without experts
    gated: bool = True  # Whether the feed-forward has a gate beside the upward matrix
    tied: bool = False  # `tie_word_embeddings`: the token table is the output matrix too
    positions: int = 0  # `max_position_embeddings`
    rotations: int = 0
    """Rows of all tables of rotations that vLLM builds; `positions` where 0. Positions that are stretched linearly take
    as many more rows, and windowed layers with a base of their own a second table (Gemma 3: 8 × 131072 + 131072)."""
    rotated: int = 0  # How many numbers of a head are rotated by position; all of them where 0

    kinds: tuple[LayerKind, ...] = ()  # For each layer (`layer_types`); full attention in all of them where empty
    window: int = 0  # `sliding_window`, or `attention_chunk_size` of chunked layers
    full_kv_heads: int = 0
    """Of full layers where they differ from windowed ones (Gemma 4: `num_global_key_value_heads`)."""
    full_key_length: int = 0  # The same for the length of a head (Gemma 4: `global_head_dim`)
    shared_kv_layers: int = 0  # How many of the last layers use the cache of earlier ones (`num_kv_shared_layers`)

    experts: int = 0  # `num_experts`, `num_local_experts`, `n_routed_experts`
    experts_used: int = 0  # `num_experts_per_tok`
    expert_width: int = 0  # `moe_intermediate_size`
    shared_width: int = 0  # Of all shared experts together
    leading_dense: int = 0  # How many of the first layers have no experts (`first_k_dense_replace`)
    expert_step: int = 1  # One in this many layers has experts (`interleave_moe_layer_step`)
    expert_bias: bool = False

    kv_rank: int = 0  # `kv_lora_rank`: the length of the latent that keys and values are made from
    rope_length: int = 0  # `qk_rope_head_dim`, which is kept beside the latent
    query_rank: int = 0  # `q_lora_rank`

    state: int = 0  # Numbers in the recurrent state of one sequence, in one recurrent layer
    convolution: int = 0  # Channels of its short convolution
    convolution_length: int = 4  # Tokens that the convolution sees at once
    recurrent_parameters: int = 0  # Weights of one recurrent layer's mixer

    attention_bias: bool = False
    head_norms: bool = False  # Whether queries and keys are normalised (two small vectors in each layer)
    attention_gate: bool = False  # Whether the query matrix has a gate of its own size beside it (Qwen3-Next)
    norms: int = 2  # Normalisations of the hidden state in each layer
    other_parameters: int = 0  # Weights beside the decoder: a vision tower, a projector

    def kind(self, layer: int) -> LayerKind:
        return self.kinds[layer] if self.kinds else LayerKind.FULL

    def has_experts(self, layer: int) -> bool:
        """Whether a layer's feed-forward is made of experts."""
        return bool(self.experts) and layer >= self.leading_dense and (layer + 1) % self.expert_step == 0

    def keeps(self, layer: int) -> bool:
        """Whether a layer has keys and values of its own."""
        return layer < self.layers - self.shared_kv_layers and self.kind(layer) in _ATTENDING

    def kv_heads_of(self, layer: int) -> int:
        return self.full_kv_heads if self.full_kv_heads and self.kind(layer) is LayerKind.FULL else self.kv_heads

    def key_length_of(self, layer: int) -> int:
        return self.full_key_length if self.full_key_length and self.kind(layer) is LayerKind.FULL else self.key_length

    def value_length_of(self, layer: int) -> int:
        return (
            self.full_key_length if self.full_key_length and self.kind(layer) is LayerKind.FULL else self.value_length
        )


def packed_tensors(tensors: Iterable[Tensor]) -> Table:
    """The table of these tensors."""
    kinds: dict[tuple[Tensor, ...], int] = {}
    order = []
    for layer, group in groupby(tensors, key=lambda t: layer_of(t.name)):
        kind = tuple(
            (t if layer == _NO_LAYER else t._replace(name=_EXACT_LAYER.sub(_ANY_LAYER, t.name, count=1))) for t in group
        )
        order.append((kinds.setdefault(kind, len(kinds)), layer))
    return Table([list(k) for k in kinds], order)


def unpacked_tensors(table: Table) -> list[Tensor]:
    """The tensors of a table; ValueError where a table that was edited by hand has none such."""
    tensors: list[Tensor] = []
    for kind, layer in table.order:
        if not 0 <= kind < len(table.kinds) or len(tensors) + len(table.kinds[kind]) > MOST_TENSORS:
            raise ValueError("has a recorded list of tensors that does not match")
        alike = table.kinds[kind]
        if layer != _NO_LAYER:
            alike = [t._replace(name=t.name.replace(_ANY_LAYER, f"blk.{layer}.", 1)) for t in alike]
        tensors += alike
    return tensors


def layer_of(name: str) -> int:
    """The layer that a tensor belongs to, or -1."""
    found = _EXACT_LAYER.match(name)
    return int(found[1]) if found else _NO_LAYER


def check_metadata(architecture: object, metadata: Mapping[str, object]) -> None:
    """ValueError where a number of a GGUF header can't be that of a model."""
    prefix = f"{architecture}."
    for key, value in metadata.items():
        if key.startswith(prefix):
            check_count(key, value, GGUF_BOUNDS.get(key.removeprefix(prefix), MOST_OF_ANYTHING))


def check_count(name: str, value: object, most: int = MOST_OF_ANYTHING) -> None:
    """ValueError where a number, or one of a list of them, is larger than that of any model."""
    numbers: Iterable[object] = value if isinstance(value, list) else (value,)
    for number in numbers:
        if isinstance(number, int | float) and number > most:
            said = f"{number:,}" if isinstance(number, int) else f"{number:g}"
            raise ValueError(f"claims {name} = {said}; the largest accepted value is {most:,}")


def _clamp_count(number: float) -> int:
    return int(min(max(number, 0), _LARGEST))
