"""What is known of an architecture beyond a model's file: traits, tensors, defaults, shapes that can be made up."""

from collections.abc import Iterator
from functools import cache, partial
from typing import Literal

import msgspec

from unslow.catalog import entries

LayoutValue = bool | int | float | str | list[int]
ConfigValue = bool | int | str | list[int]


class Architecture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An architecture's habits; the tensors of a file say the rest."""

    source: str
    is_known: bool = True  # Whether this catalog describes how its layers are computed
    heeds: tuple[str, ...] = ()
    """Keys of a file by which llama.cpp changes the computation of this architecture, and not of others."""
    block: str = "blk"  # What the names of a layer's tensors begin with
    has_encoder: bool = False  # Whether an encoder reads the input: then every token of a batch is wanted
    flash_attention: bool = True  # Whether llama.cpp allows it

    # windows
    has_windows: bool = False
    """Whether llama.cpp heeds a sliding window; in most it attends to everything, whatever the file says."""
    window: int = 0  # The sliding window where the file gives none
    window_fixed: int = 0  # The sliding window where the file gives any
    window_period: int = 0  # One in this many layers attends to everything; 0 where the file must say it
    window_full_first: bool = False  # Whether that one is the first of the period, else the last
    window_layers_from: int = 0  # From this many layers on a model has windows (EXAONE 4: only the large one)
    window_drafts: bool = False  # Whether layers that only predict further tokens have windows too

    # caches and states
    has_cache: bool = True  # Whether keys and values are kept; embedding and diffusion models see all tokens at once
    reads_cache: bool = True  # Whether what is kept is read: some embedding models have a cache for nothing
    layers_with_cache: int = 0
    """How many layers, from the first, have a cache of their own; the others read theirs. 0 for all."""
    caches_drafts: bool = True
    """Whether layers that only predict further tokens have a cache, although they are not loaded."""
    recurrent_period: int = 0
    """The last of this many layers attends, the others keep a state; 0 where the file's heads say it."""
    loads_states_first: bool = False  # Whether a layer's state is read before its norm is computed (Ling 3)
    both_kinds: bool = False  # Whether each layer has attention and a state side by side (Falcon H1)

    # what is loaded
    copies_table: bool = True
    """Whether the token table is loaded a second time for the output, where there is no matrix for it."""
    copies_table_first: bool = False
    """Whether that is done before the table itself is loaded, so that one place may have both."""
    drafts_need_tensors: bool = False
    """Whether layers that only predict further tokens are counted only where the file has their tensors."""
    draft_tensors: tuple[str, ...] = ()  # Parts of the names of those layers' tensors that are loaded all the same

    # norms
    norm: Literal["", "rms_norm", "norm"] = ""  # Where it is empty, the one whose epsilon the file has
    head_norm: Literal["", "rms_norm", "norm"] = ""  # The norm of queries and keys, where it is another one
    norms_without_weights: bool = False  # Whether the norms of a layer, and the last one, have no weights (OLMo 1)
    norms_embeddings: bool = False  # Whether embeddings get a norm without weights
    norms_values: bool = False  # Whether values get a norm without weights (Gemma 3n and 4)
    norms_after_rope: bool = False  # Whether queries and keys are normed after they were turned, and not before
    norms_turned_heads: bool = False  # Whether queries and keys that were turned get a norm without weights (Llama 4)
    norms_not_with_experts: int = 0  # Except in a model of this many experts

    # positions
    positions: int = 1  # Position numbers for each token (4 where images have places too)
    positions_by_file: bool = False  # Whether the sections in the file say if there are 4
    rope: Literal["all", "none", "windows", "windows_or_dense", "unless_untrained"] = "all"
    """The layers that turn by rotary positions: those with a window, where there are any, and perhaps those without
    experts; or all, unless the file says that its rotary scaling was not trained."""
    rope_skips: int = 0  # The last of this many layers has no rotary positions; 0 for none
    rope_model_layers: int = 0  # Only a model of this many layers has rotary positions (Baichuan 7B); 0 for any
    rope_factors: Literal["all", "no_windows", "none"] = "all"  # The layers that use the file's rotary factors
    tempers_unturned: bool = False  # Whether layers that don't turn scale their queries by the position (Llama 4)

    # sums
    sum_order: tuple[Literal["attention", "feed_forward", "input"], ...] = ()
    """The order in which they are added, where both halves of a layer read the same."""
    is_parallel_by_file: bool = False
    """Whether the file says that both halves of a layer read the same, although each has its norm."""
    residual_first: Literal["", "attention", "feed_forward", "both"] = ""  # The half whose sum begins with what it read
    adds_normed: bool = False
    """Whether a half is added to what it read after the norm, which is scaled in its place (MiniMax-01)."""
    skips_embeddings: bool = False  # Whether each layer adds the embeddings again, times its output scale
    picks_outputs: Literal["attention", "post_norm", "sum", "feed_forward", "never", "layers", "norm"] = "attention"
    """What only the wanted tokens go on after: in the last layer its attention, the norm of that, the sum of attention
    and what it read, or its second half; or, where drafts of further tokens want every token, all layers or the last
    norm."""

    # scales and limits
    scales_embeddings: bool = False
    scales_queries: bool = False
    scales_residuals: bool = False  # Whether what a half says is multiplied by a number before it is added
    scales_last: bool = False  # Whether what the output matrix reads is multiplied by a number
    scales_logits: bool = False
    caps_logits: bool = False  # Whether logits are squeezed into a range, whatever the file says
    caps_scores: bool = False  # Whether attention scores are squeezed into a range

    # output
    has_output: bool = True  # Whether it says tokens; embedding models end with the last norm
    pads_logits: bool = False  # Whether tokens that the output matrix has no row for get logits all the same
    hidden_tokens: int = 0  # So many tokens, those of images, are never said: their logits are overwritten (Chameleon)

    # feed-forward networks and experts
    squares: bool = False  # Whether the activation is a squared one (ReLU squared)
    clamps_first: bool = False
    """Whether limits are set before a gated activation, and to all networks where the file gives those of experts."""
    gating: int = 1
    """How a router turns its scores into weights: 1 softmax, 2 sigmoid, 3 softmax over the chosen ones, 4 the root of
    softplus."""
    normalises_weights: bool = True
    """Whether the weights of the chosen experts are made to add up to one, where the file does not say."""
    weighs_experts_first: bool = False  # Whether the input of an expert is weighted, and not its result (Llama 4)
    selects_by_sigmoid: bool = False
    """Whether experts are chosen by another function than the one that weighs them (GroveMoE)."""
    routes_input: bool = False  # Whether experts are chosen by what the layer read, before attention (SmallThinker)
    mixes_dense: bool = False
    """Whether a network for all tokens stands beside the experts, and the mean of both is taken (Grok)."""
    scales_shared_sum: bool = False  # Whether the sum of chosen and shared experts is multiplied by a number
    divides_shared_gate: bool = False
    """Whether the gate of the shared expert is computed as an activation divided by its input (Qwen2 MoE)."""


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tensors that are there together: once, or in each layer where `when` holds."""

    tensors: dict[str, str]
    when: str = ""


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an architecture, or a part that several share, consists of.

    There is one TOML for each architecture, which names its tensors over the numbers of a shape.
    An entry names the shared parts it is made of, and adds, changes or leaves out what is its own. A shape is a text of
    expressions (`width, heads * key_length`), the length of a row first, as GGUF has it. `{}` in a tensor's name stands
    for the number of its layer.
    """

    source: str = ""  # The file of llama.cpp that was read
    parts: tuple[str, ...] = ()
    """Shared parts that come before its own; of two that say the same thing, the later one counts."""
    without: tuple[str, ...] = ()  # Tensors of its parts that it lacks
    numbers: dict[str, str] = {}
    """Numbers worked out from those of the shape, where the shape does not state them itself."""
    metadata: dict[str, LayoutValue] = {}
    """By the key after the architecture's name; a text is an expression, anything else the value itself."""
    groups: tuple[Group, ...] = ()


class MadeUpShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that decides a model's speed, apart from the mix of types."""

    source: str
    architecture: str
    quant: str  # The mix to use where none is asked for
    layers: int
    width: int
    feed_forward: int  # Of one expert, where there are experts
    heads: int
    kv_heads: int
    head_length: int
    vocabulary: int
    context_trained: int
    rope_base: float = 10000.0
    tied: bool = False  # Whether the token table is the output matrix too
    head_norms: bool = False  # Whether queries and keys are normalised, as in Qwen3
    experts: int = 0
    experts_used: int = 0


_PLAIN = Architecture(source="unknown architecture: only its tensors can be read")
made_up_shapes = partial(entries, "shapes", MadeUpShape)  # Every shape by its file name


def architecture(name: str) -> Architecture:
    """What is known of an architecture by its GGUF name; a plain one where nothing is."""
    return _architectures().get(name.replace("_", "-"), _PLAIN)


@cache
def _architectures() -> dict[str, Architecture]:
    return {name.replace("_", "-"): value for name, value in entries("architectures", Architecture).items()}


@cache
def layouts() -> dict[str, Layout]:
    """Every architecture's layout by the name that GGUF has for it, with its parts put in."""
    parts = entries("layouts/parts", Layout)
    return {name: _merge_parts(layout, parts) for name, layout in entries("layouts", Layout).items()}


def _merge_parts(layout: Layout, parts: dict[str, Layout]) -> Layout:
    pieces = [*_pieces(layout, parts)]
    # Each tensor only where the last piece that names it has it
    last = {name: n for n, piece in enumerate(pieces) for group in piece.groups for name in group.tensors}
    gone = {name for piece in pieces for name in piece.without}
    groups = []
    for n, piece in enumerate(pieces):
        for group in piece.groups:
            kept = {name: shape for name, shape in group.tensors.items() if last[name] == n and name not in gone}
            groups += [Group(kept, group.when)] if kept else []
    return msgspec.structs.replace(
        layout,
        parts=(),
        without=(),
        numbers={name: text for piece in pieces for name, text in piece.numbers.items()},
        metadata={key: setting for piece in pieces for key, setting in piece.metadata.items()},
        groups=tuple(groups),
    )


def _pieces(layout: Layout, parts: dict[str, Layout]) -> Iterator[Layout]:
    for name in layout.parts:
        yield from _pieces(parts[name], parts)
    yield layout


def config_defaults(model_type: str) -> dict[str, ConfigValue]:
    """The defaults of that `model_type`; none where it is not known as the inner model of another.

    What Transformers takes for granted of a text model: it leaves these values out of a nested `config.json`. A config
    inside another (`text_config`) is saved without the values that equal the defaults of its class, so that a vision
    model's file can be silent about its number of heads. One TOML for each `model_type`, by the names of `config.json`.
    """
    defaults = entries("config_defaults", dict[str, ConfigValue]).get(model_type, {})
    return {key: value for key, value in defaults.items() if key != "source"}
