"""A model as Hugging Face's `config.json` has it: the numbers that vLLM's and Transformers' memory follow from."""

from enum import StrEnum

import msgspec


class LayerKind(StrEnum):
    """What a layer keeps of the tokens before."""

    FULL = "full"
    """The keys and values of all of them, or their latents."""
    WINDOW = "window"
    """Those of the last `window` tokens."""
    CHUNK = "chunk"
    """Those since the last multiple of `window` (Llama 4)."""
    RECURRENT = "recurrent"
    """A state of fixed size: Mamba, gated delta nets, linear attention."""
    BARE = "bare"
    """Nothing: feed-forward alone."""


class HfShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The numbers of a decoder; 0 is what it does not have."""

    layers: int
    """`num_hidden_layers`."""
    width: int
    """`hidden_size`."""
    vocabulary: int
    """`vocab_size`, as padded in the files."""
    heads: int
    """`num_attention_heads`."""
    kv_heads: int
    """`num_key_value_heads`."""
    key_length: int
    """Of one head: `head_dim`; with a latent, `qk_nope_head_dim` + `qk_rope_head_dim`."""
    value_length: int
    """Of one head: `head_dim`; with a latent, `v_head_dim`."""
    feed_forward: int = 0
    """`intermediate_size` of the layers without experts."""
    gated: bool = True
    """Whether the feed-forward has a gate beside the upward matrix."""
    tied: bool = False
    """`tie_word_embeddings`: the token table is the output matrix too."""
    positions: int = 0
    """`max_position_embeddings`."""
    rotations: int = 0
    """Rows of all tables of rotations that vLLM builds; `positions` where 0. Positions that are stretched linearly take
    as many more rows, and windowed layers with a base of their own a second table (Gemma 3: 8 × 131072 + 131072)."""
    rotated: int = 0
    """How many numbers of a head are rotated by position; all of them where 0."""

    kinds: tuple[LayerKind, ...] = ()
    """For each layer (`layer_types`); full attention in all of them where empty."""
    window: int = 0
    """`sliding_window`, or `attention_chunk_size` of chunked layers."""
    full_kv_heads: int = 0
    """Of full layers where they differ from windowed ones (Gemma 4: `num_global_key_value_heads`)."""
    full_key_length: int = 0
    """The same for the length of a head (Gemma 4: `global_head_dim`)."""
    shared_kv_layers: int = 0
    """How many of the last layers use the cache of earlier ones (`num_kv_shared_layers`)."""

    experts: int = 0
    """`num_experts`, `num_local_experts`, `n_routed_experts`."""
    experts_used: int = 0
    """`num_experts_per_tok`."""
    expert_width: int = 0
    """`moe_intermediate_size`."""
    shared_width: int = 0
    """Of all shared experts together."""
    leading_dense: int = 0
    """How many of the first layers have no experts (`first_k_dense_replace`)."""
    expert_step: int = 1
    """Each so-manieth layer has experts (`interleave_moe_layer_step`)."""
    expert_bias: bool = False

    kv_rank: int = 0
    """`kv_lora_rank`: the length of the latent that keys and values are made from."""
    rope_length: int = 0
    """`qk_rope_head_dim`, which is kept beside the latent."""
    query_rank: int = 0
    """`q_lora_rank`."""

    state: int = 0
    """Numbers in the recurrent state of one sequence, in one recurrent layer."""
    convolution: int = 0
    """Channels of its short convolution."""
    convolution_length: int = 4
    """Tokens that the convolution sees at once."""
    recurrent_parameters: int = 0
    """Weights of one recurrent layer's mixer."""

    attention_bias: bool = False
    head_norms: bool = False
    """Whether queries and keys are normalised (two small vectors in each layer)."""
    attention_gate: bool = False
    """Whether the query matrix has a gate of its own size beside it (Qwen3-Next)."""
    norms: int = 2
    """Normalisations of the hidden state in each layer."""
    other_parameters: int = 0
    """Weights beside the decoder: a vision tower, a projector."""

    def kind(self, layer: int) -> LayerKind:
        """What a layer keeps."""
        return self.kinds[layer] if self.kinds else LayerKind.FULL

    def has_experts(self, layer: int) -> bool:
        """Whether a layer's feed-forward is made of experts."""
        return bool(self.experts) and layer >= self.leading_dense and (layer + 1) % self.expert_step == 0

    def keeps(self, layer: int) -> bool:
        """Whether a layer has keys and values of its own."""
        return layer < self.layers - self.shared_kv_layers and self.kind(layer) in _ATTENDING

    def kv_heads_of(self, layer: int) -> int:
        """The heads of keys and values in a layer."""
        return self.full_kv_heads if self.full_kv_heads and self.kind(layer) is LayerKind.FULL else self.kv_heads

    def key_length_of(self, layer: int) -> int:
        """The length of a key in a layer."""
        return self.full_key_length if self.full_key_length and self.kind(layer) is LayerKind.FULL else self.key_length

    def value_length_of(self, layer: int) -> int:
        """The length of a value in a layer."""
        return (
            self.full_key_length if self.full_key_length and self.kind(layer) is LayerKind.FULL else self.value_length
        )


_ATTENDING = frozenset({LayerKind.FULL, LayerKind.WINDOW, LayerKind.CHUNK})
