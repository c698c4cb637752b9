"""Small habits of a model, as its file tells them or, where it does not, its architecture."""

from functools import cached_property

from unslow.catalog.architectures import Architecture, architecture
from unslow.facts.blueprint import Blueprint


class Traits:
    """What is scaled, normed, bounded or weighed, and how."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.habits: Architecture = architecture(blueprint.architecture)
        self.experts = blueprint.count("expert_count")
        self._clamped: dict[str, str] = {}

    def _said(self, key: str, default: float = 0) -> float:
        """What the file says, where llama.cpp heeds it."""
        return self.blueprint.number(key, default) if key in self.habits.heeds else default

    @cached_property
    def caps_scores(self) -> bool:
        """Whether attention scores are squeezed into a range."""
        return self.habits.caps_scores

    @cached_property
    def norms_turned_heads(self) -> bool:
        """Whether queries and keys get a norm without weights after they were turned (Llama 4, but for the largest)."""
        return self.habits.norms_turned_heads and self.experts != self.habits.norms_not_with_experts

    @cached_property
    def clamps_heads(self) -> bool:
        """Whether queries, keys and values are kept within limits."""
        return self._said("attention.clamp_kqv") > 0

    @cached_property
    def tempers(self) -> bool:
        """Whether queries are multiplied by a factor that grows with the position."""
        return self._said("attention.temperature_scale") != 0

    @cached_property
    def is_parallel(self) -> bool:
        """Whether both halves of a layer read the same although each has its norm."""
        return self.habits.is_parallel_by_file and bool(self.blueprint.number("use_parallel_residual"))

    @cached_property
    def scales_residuals(self) -> bool:
        """Whether what a half says is multiplied by a number before it is added."""
        return self.habits.scales_residuals or self._said("residual_scale") != 0

    @cached_property
    def scales_embeddings(self) -> bool:
        """Whether embeddings are multiplied by a number."""
        return self.habits.scales_embeddings or self._said("embedding_scale") != 0

    @cached_property
    def scales_logits(self) -> bool:
        """Whether logits are multiplied by a number."""
        return self.habits.scales_logits or self._said("logit_scale") != 0

    @cached_property
    def caps_logits(self) -> bool:
        """Whether logits are squeezed into a range."""
        return self.habits.caps_logits or self._said("final_logit_softcapping") != 0

    @cached_property
    def norm(self) -> str:
        """The norm between parts of a layer, as ggml names it."""
        keys = (f"{self.blueprint.architecture}.attention.layer_norm{kind}_epsilon" for kind in ("_rms", ""))
        has_rms, has_plain = (key in self.blueprint.metadata for key in keys)
        return self.habits.norm or ("norm" if has_plain and not has_rms else "rms_norm")

    @cached_property
    def last_norm(self) -> str:
        """The name of the norm after the last layer; empty where there is none."""
        names = ("output_norm", "enc.output_norm", *(("token_embd_norm",) if self.habits.has_output else ()))
        bare = "output_norm" if self.habits.norms_without_weights else ""
        return next((name for name in names if f"{name}.weight" in self.blueprint.by_name), bare)

    @cached_property
    def scales_values(self) -> bool:
        """Whether the result of attention is multiplied by a number."""
        return self._said("attention.value_scale") not in (0, 1)

    @cached_property
    def leading_dense(self) -> int:
        """How many layers, from the first, have no experts."""
        return self.blueprint.count("leading_dense_block_count")

    def clamps(self, what: str, layer: int) -> bool:
        """Whether a layer keeps the activations of its experts (`exp`), or of its other network, within limits."""
        key = self._clamped.get(what)
        if key is None:
            key = self._clamped[what] = self._clamp(what)
        return bool(key) and self.blueprint.per_layer(key, layer + 1)[layer] > 0

    def _clamp(self, what: str) -> str:
        """The key with those limits; empty where there are none."""
        keys = (f"swiglu_clamp_{what}", *(("swiglu_clamp_exp",) if self.habits.clamps_first else ()))
        return next((key for key in keys if self.blueprint.number(key)), "")

    @cached_property
    def gating(self) -> int:
        """How a router turns scores into weights; softmax where the file does not say."""
        return int(self._said("expert_gating_func", self.habits.gating))

    @cached_property
    def normalises_weights(self) -> bool:
        """Whether the weights of the chosen experts are made to add up to one."""
        return bool(self._said("expert_weights_norm", self.habits.normalises_weights))

    @cached_property
    def scales_weights(self) -> bool:
        """Whether those weights are then multiplied by a number."""
        return self._said("expert_weights_scale") not in (0, 1)
