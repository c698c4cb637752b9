"""The shape that the plain numbers of a `config.json` stand for, as `hf_shape` names them."""

from collections.abc import Mapping

from unslow.facts.hf_shape import HfShape, LayerKind

Numbers = Mapping[str, int | bool | str | list[int] | list[str]]

_KINDS = {
    "full_attention": LayerKind.FULL,
    "sliding_attention": LayerKind.WINDOW,
    "chunked_attention": LayerKind.CHUNK,
    "linear_attention": LayerKind.RECURRENT,
    "mamba": LayerKind.RECURRENT,
    "conv": LayerKind.RECURRENT,
    "mlp": LayerKind.BARE,
    "moe": LayerKind.BARE,
}
_TWO_BASES = ("gemma3", "gemma3_text", "gemma3n_text")
"""Windowed layers rotate with a base of their own, and full ones stretch their positions by eight."""
_GEMMA_ROTATIONS = 9
_FOUR_NORMS = ("gemma2", "gemma3", "gemma3_text", "gemma4", "gemma4_text")


def shape_of_config(numbers: Numbers) -> HfShape:
    """The shape; what the config is silent about is taken to be absent."""
    of = _Reader(numbers)
    family = str(numbers.get("model_type", ""))
    head, experts = of("head_dim"), of("experts")
    latent = of("kv_lora_rank")
    expert = of("expert_intermediate") if experts else 0
    positions = of("context")
    return HfShape(
        layers=of("layers"),
        width=of("width"),
        vocabulary=of("vocabulary"),
        heads=of("heads"),
        kv_heads=of("kv_heads"),
        key_length=head,
        value_length=of("v_head_dim") if latent else head,
        feed_forward=of("dense_intermediate") or of("intermediate"),
        tied=bool(numbers.get("tied")),
        positions=positions,
        rotations=_GEMMA_ROTATIONS * positions if family in _TWO_BASES else 0,
        kinds=_kinds(numbers),
        window=of("sliding_window") or of("attention_chunk"),
        full_kv_heads=of("global_kv_heads"),
        full_key_length=of("global_head_dim"),
        shared_kv_layers=of("kv_shared_layers"),
        experts=experts,
        experts_used=of("experts_used"),
        expert_width=expert,
        shared_width=of("shared_expert_intermediate") or of("shared_experts") * expert,
        leading_dense=of("dense_layers_first"),
        expert_step=of("expert_layer_step") or 1,
        kv_rank=latent,
        rope_length=of("qk_rope_head_dim") if latent else 0,
        query_rank=of("q_lora_rank") if latent else 0,
        state=of.delta_values * of("linear_key_head_dim") or of.mamba_inner * of("mamba_state"),
        convolution=of.convolution,
        convolution_length=of("conv_kernel") or 4,
        recurrent_parameters=of.recurrent_parameters,
        norms=4 if family in _FOUR_NORMS else 2,
    )


def _kinds(numbers: Numbers) -> tuple[LayerKind, ...]:
    """What each layer keeps; a word that is not known is taken for full attention, which keeps the most."""
    words = numbers.get("layer_types")
    found = tuple(_KINDS.get(str(word), LayerKind.FULL) for word in words) if isinstance(words, list) else ()
    return () if set(found) <= {LayerKind.FULL} else found


class _Reader:
    """Whole numbers by name, and what recurrent layers come to; 0 for what is not there."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers

    def __call__(self, name: str) -> int:
        value = self._numbers.get(name, 0)
        return value if isinstance(value, int) else 0

    @property
    def delta_keys(self) -> int:
        """Keys of a gated delta net."""
        return self("linear_key_heads") * self("linear_key_head_dim")

    @property
    def delta_values(self) -> int:
        """Values of a gated delta net."""
        return self("linear_value_heads") * self("linear_value_head_dim")

    @property
    def mamba_inner(self) -> int:
        """The inner width of a Mamba layer."""
        return self("mamba_heads") * self("mamba_head_dim") or self("mamba_expand") * self("width")

    @property
    def convolution(self) -> int:
        """Channels of the short convolution."""
        if self.delta_values:
            return 2 * self.delta_keys + self.delta_values
        groups = self("mamba_groups") if self("mamba_heads") else 0
        return self.mamba_inner + 2 * groups * self("mamba_state") if self("mamba_state") else 0

    @property
    def recurrent_parameters(self) -> int:
        """The weights of one mixer: into its channels, the convolution, and out again."""
        width, kernel = self("width"), self("conv_kernel") or 4
        if self.delta_values:
            into = 2 * self.delta_keys + 2 * self.delta_values + 2 * self("linear_value_heads")
            return width * (into + self.delta_values) + self.convolution * kernel
        if not self("mamba_state"):
            return 0
        into = self.mamba_inner + self.convolution + self("mamba_heads")
        return width * (into + self.mamba_inner) + self.convolution * kernel
