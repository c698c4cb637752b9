"""Well-known models: the numbers that their tensors and their memory follow from, one TOML each, found by presence."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from unslow.catalog import entry, texts

PerLayer = int | list[int]
"""One number for all layers, or a list with one for each layer that is repeated where it is shorter."""


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The numbers of a model by the names that the layouts use; None is what the model does not have."""

    layers: int
    """As GGUF counts them: with the layers that guess further tokens, where its files keep them."""
    width: int
    """The length of the hidden state."""
    vocabulary: int
    """As padded in the files."""
    context_trained: int
    context_original: int | None = None
    """Before the positions were stretched."""
    tied: bool | None = None
    """Whether the token table is the output matrix too."""

    heads: PerLayer | None = None
    kv_heads: PerLayer | None = None
    """0 in layers that attend to nothing; like `heads` where it is not stated."""
    key_length: int | None = None
    """Of one head; the width shared among the heads where it is not stated."""
    value_length: int | None = None
    """Like the key's where it is not stated."""
    rope_dimensions: int | None = None
    """How many numbers of a head are rotated by position; all where it is not stated."""
    rope_frequencies: bool | None = None
    """Whether the file has a tensor of factors for the frequencies (Llama 3.1 and later)."""
    rope_factors: bool | None = None
    """Whether it has two, for short and for long contexts (Phi-3, 128K)."""
    attention_bias: bool | None = None
    """Whether queries, keys and values have biases."""
    head_norms: bool | None = None
    parallel: bool | None = None
    """Whether attention and feed-forward lie side by side (StableLM 2 12B)."""

    window: int | None = None
    """How far back windowed layers see, in tokens."""
    windowed: list[int] | None = None
    """1 for a windowed layer, 0 for a full one; where it is not stated, the architecture's own rhythm."""
    key_length_window: int | None = None
    keys_are_values: bool | None = None
    """Whether full layers take their keys as values (Gemma 4)."""
    shared_kv_layers: int | None = None
    """How many of the last layers use the cache of earlier ones."""
    per_layer_width: int | None = None
    """Of the token table that each layer has a slice of (Gemma 3n and 4)."""

    feed_forward: PerLayer | None = None
    experts: int | None = None
    experts_used: int | None = None
    experts_shared: int | None = None
    expert_width: int | None = None
    """The feed-forward length of one expert; `feed_forward` where it is not stated."""
    shared_width: int | None = None
    """Of all shared experts together; as many expert widths as there are where it is not stated."""
    expert_step: int | None = None
    """Each so-manieth layer has experts."""
    expert_bias: bool | None = None
    """Whether the router's choice has a bias."""
    expert_norm: bool | None = None
    """Whether the weights of the chosen experts are made to add up to one, where the architecture leaves it open."""
    expert_scale: float | None = None
    """What those weights are multiplied with."""
    expert_groups: int | None = None
    """Experts are chosen from the best groups first (DeepSeek-V3)."""
    expert_groups_used: int | None = None
    leading_dense: int | None = None
    """How many of the first layers have no experts."""
    latent_width: int | None = None
    """Of the smaller space that experts work in (Nemotron 3)."""
    guessing_layers: int | None = None
    """Layers at the end that only guess the tokens after the next one."""
    guessing_tables: bool | None = None
    """Whether those have a token table and an output matrix of their own."""

    query_rank: int | None = None
    kv_rank: int | None = None
    """The length of the latent that keys and values are made from (DeepSeek)."""
    latent_key_length: int | None = None
    latent_value_length: int | None = None
    index_heads: int | None = None
    """Of the small attention that picks which positions to attend to (DeepSeek-V3.2)."""
    index_length: int | None = None
    index_picked: int | None = None

    attention_interval: int | None = None
    """Each so-manieth layer attends, the others are recurrent (Qwen3-Next)."""
    convolution: int | None = None
    """The length of the short convolution."""
    inner: int | None = None
    state: int | None = None
    time_steps: int | None = None
    """The time step's rank in Mamba, the number of heads in its successors."""
    state_groups: int | None = None
    state_norm: bool | None = None
    linear_length: int | None = None
    """Of a head of delta attention (Kimi Linear)."""

    head_size: int | None = None
    """Of RWKV, as are the ranks that follow."""
    time_mix_rank: int | None = None
    decay_rank: int | None = None
    learning_rank: int | None = None
    value_rank: int | None = None
    gate_rank: int | None = None


class WellKnown(msgspec.Struct, frozen=True, kw_only=True):
    """A model that people know by name."""

    names: tuple[str, ...]
    """The usual one first; then how else people write it."""
    architecture: str
    """The name that GGUF has for it."""
    parameters: int
    """As published, or as llama.cpp counts a file's; of the language model alone."""
    source: str
    """Where the numbers are published."""
    checked: str = ""
    """What they were compared with here; empty where only the number of parameters vouches for them."""
    published: str = ""
    """The format in which its publisher ships the weights, where that is not plain 16 bits: MXFP4, FP8 block."""
    projector: str = ""
    """What a part beside the language model reads, which is not counted here: images, images and sound."""
    shape: Shape

    @property
    def name(self) -> str:
        """The usual name."""
        return self.names[0]


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file: whole, or like another one but for what it states; how it is published it states itself."""

    names: tuple[str, ...]
    source: str
    parameters: int = 0
    checked: str = ""
    published: str = ""
    projector: str = ""
    architecture: str = ""
    like: str = ""
    shape: dict[str, Any] = {}


_NAMES = re.compile(r"names = \[([^\]]*)\]")
_QUOTED = re.compile(r'"([^"]*)"')


@cache
def all_names() -> dict[str, tuple[str, ...]]:
    """The names of every model by its file name; they stand first in a file, and the numbers are not read for them."""
    found = {stem: _NAMES.match(text) for stem, text in _texts().items()}
    return {stem: tuple(_QUOTED.findall(match[1])) for stem, match in found.items() if match}


@cache
def well_known() -> dict[str, WellKnown]:
    """Every model by its file name."""
    return {stem: model_at(stem) for stem in _texts()}


@cache
def model_at(stem: str) -> WellKnown:
    """The model of a file name."""
    one = _entry(stem)
    return _whole(one, {one.like: _entry(one.like)} if one.like else {})


@cache
def _texts() -> dict[str, str]:
    return texts("models")


@cache
def _entry(stem: str) -> _Entry:
    return entry(_texts()[stem], _Entry, f"models/{stem}.toml")


def _whole(one: _Entry, found: Mapping[str, _Entry]) -> WellKnown:
    """The entry with what it takes from the one it is like."""
    base = found[one.like] if one.like else one
    return WellKnown(
        names=one.names,
        architecture=one.architecture or base.architecture,
        parameters=one.parameters or base.parameters,
        source=one.source,
        checked=one.checked,
        published=one.published,
        projector=one.projector,
        shape=msgspec.convert({**base.shape, **one.shape}, Shape),
    )
