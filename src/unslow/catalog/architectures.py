"""What llama.cpp knows of an architecture beyond what a model's file says."""

from functools import cache

import msgspec

from unslow.catalog import entries


class Architecture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An architecture's habits; the tensors of a file tell the rest."""

    source: str
    window: int = 0
    """The sliding window where the file gives none."""
    window_period: int = 0
    """Of so many layers, one attends to everything; 0 where the file must say it."""
    window_full_first: bool = False
    """Whether that one is the first of the period, else the last."""
    window_layers_from: int = 0
    """From so many layers on a model has windows at all (EXAONE 4: only the large one)."""
    window_drafts: bool = False
    """Whether layers that only predict further tokens have windows too."""
    ignores_window: bool = False
    """Whether llama.cpp attends to everything whatever the file says."""
    layers_with_cache: int = 0
    """How many layers, from the first, have a cache of their own; the others read theirs. 0 for all."""
    has_cache: bool = True
    """Whether keys and values are kept; embedding and diffusion models see all tokens at once."""
    reads_cache: bool = True
    """Whether what is kept is read: some embedding models have a cache for nothing."""
    caches_drafts: bool = True
    """Whether layers that only predict further tokens have a cache, although they are not loaded."""
    drafts_need_tensors: bool = False
    """Whether such layers are only counted where the file has their tensors."""
    draft_tensors: tuple[str, ...] = ()
    """Parts of the names of those layers' tensors that are loaded all the same."""
    block: str = "blk"
    """What the names of a layer's tensors begin with."""

    has_encoder: bool = False
    """Whether an encoder reads the input: then every token of a batch is wanted."""
    has_output: bool = True
    """Whether it says tokens; embedding models end with the last norm."""
    copies_table: bool = True
    """Whether the token table is loaded a second time for the output, where there is no matrix for it."""
    copies_table_first: bool = False
    """Whether that is done before the table itself is loaded, so that one place may have both."""
    skips_embeddings: bool = False
    """Whether each layer adds the embeddings again, times its output scale."""

    # norms
    norm: str = ""
    """rms_norm, norm or, where it is empty, the one whose epsilon the file has."""
    head_norm: str = ""
    """The norm of queries and keys, where it is another one."""
    norms_without_weights: bool = False
    """Whether the norms of a layer, and the last one, have no weights (OLMo 1)."""
    norms_embeddings: bool = False
    """Whether embeddings get a norm without weights."""
    norms_values: bool = False
    """Whether values get a norm without weights (Gemma 3n and 4)."""
    norms_after_rope: bool = False
    """Whether queries and keys are normed after they were turned, and not before."""
    norms_turned_heads: bool = False
    """Whether queries and keys that were turned get a norm without weights (Llama 4)."""
    norms_not_with_experts: int = 0
    """But not in a model of so many experts."""

    # positions
    positions: int = 1
    """Position numbers for each token (4 where images have places too)."""
    rope: str = "all"
    """The layers that turn by rotary positions: all, none, windows (those with a window, where there are any), or
    unless_untrained (all, unless the file says that its rotary scaling was not trained)."""
    rope_skips: int = 0
    """Of so many layers, the last one does not turn; 0 for none."""
    rope_model_layers: int = 0
    """Only a model of so many layers turns (Baichuan 7B); 0 for any."""
    rope_factors: str = "all"
    """The layers that use the file's rotary factors: all, no_windows (those without a window), or none."""
    tempers_unturned: bool = False
    """Whether layers that don't turn scale their queries by the position (Llama 4)."""

    # sums
    sum_order: tuple[str, ...] = ()
    """Where both halves of a layer read the same: the order in which attention, feed_forward and input are added."""
    residual_first: str = ""
    """The half (attention, feed_forward, or both) whose sum begins with what it read."""
    scales_residuals: bool = False
    """Whether what a half says is multiplied by a number before it is added."""
    adds_normed: bool = False
    """Whether a half is added to what it read after the norm, which is scaled in its place (MiniMax-01)."""
    picks_outputs: str = "attention"
    """After what of the last layer only the wanted tokens go on: attention, post_norm (of attention), sum (of attention
    and what it read), feed_forward, or never; or after all layers, where drafts of further tokens want every token: layers (before the last norm), norm (after it)."""

    recurrent_period: int = 0
    """Of so many layers, the last one attends and the others keep a state; 0 where the file's heads tell."""
    loads_states_first: bool = False
    """Whether a layer's state is read before its norm is computed (Ling 3)."""
    both_kinds: bool = False
    """Whether each layer has attention and a state side by side (Falcon H1)."""
    scales_embeddings: bool = False
    scales_queries: bool = False
    scales_last: bool = False
    """Whether what the output matrix reads is multiplied by a number."""
    scales_logits: bool = False
    caps_logits: bool = False
    """Whether logits are squeezed into a range, whatever the file says."""
    pads_logits: bool = False
    """Whether tokens that the output matrix has no row for get logits all the same."""
    hidden_tokens: int = 0
    """So many tokens, those of images, are never said: their logits are overwritten (Chameleon)."""
    flash_attention: bool = True
    """Whether llama.cpp allows it."""
    caps_scores: bool = False
    """Whether attention scores are squeezed into a range, whatever the file says."""
    squares: bool = False
    """Whether the activation is a squared one (ReLU squared)."""
    gating: int = 1
    """How a router turns its scores into weights: 1 softmax, 2 sigmoid, 3 softmax over the chosen ones."""
    weighs_experts_first: bool = False
    """Whether the input of an expert is weighted, and not its result (Llama 4)."""
    normalises_weights: bool = True
    """Whether the weights of the chosen experts are made to add up to one, where the file does not say."""
    mixes_dense: bool = False
    """Whether a network for all tokens stands beside the experts, and the mean of both is taken (Grok)."""
    clamps_first: bool = False
    """Whether limits are set before a gated activation, and to all networks where the file gives those of experts."""
    selects_by_sigmoid: bool = False
    """Whether experts are chosen by another function than the one that weighs them (GroveMoE)."""
    routes_input: bool = False
    """Whether experts are chosen by what the layer read, before attention (SmallThinker)."""
    scales_shared_sum: bool = False
    """Whether the sum of chosen and shared experts is multiplied by a number."""
    divides_shared_gate: bool = False
    """Whether the gate of the shared expert is computed as an activation divided by its input (Qwen2 MoE)."""


_PLAIN = Architecture(source="nothing is known of it: its tensors must tell")


@cache
def _architectures() -> dict[str, Architecture]:
    return {name.replace("_", "-"): value for name, value in entries("architectures", Architecture)}


def architecture(name: str) -> Architecture:
    """What is known of an architecture by its GGUF name; a plain one where nothing is."""
    return _architectures().get(name.replace("_", "-"), _PLAIN)
