"""A model's numbers for each layer, as llama.cpp reads them from the header."""

from functools import cached_property

from unslow.catalog.architectures import Architecture, architecture
from unslow.facts.blueprint import Blueprint


class Hyper:
    """The numbers behind a compute graph."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.habits: Architecture = architecture(blueprint.architecture)
        self.all_layers = blueprint.count("block_count")
        self.layers = self.all_layers - blueprint.count("nextn_predict_layers")
        """Without the layers that only predict further tokens."""
        self.width = blueprint.count("embedding_length")
        self.heads = blueprint.per_layer("attention.head_count", self.all_layers)
        self.kv_heads = self._kv_heads()
        self.experts = blueprint.count("expert_count")
        self.experts_used = blueprint.per_layer("expert_used_count", self.all_layers)
        self.window = 0 if self.habits.ignores_window else self._window()

    def _kv_heads(self) -> list[int]:
        if f"{self.blueprint.architecture}.attention.head_count_kv" in self.blueprint.metadata:
            return self.blueprint.per_layer("attention.head_count_kv", self.all_layers)
        return self.heads

    def _window(self) -> int:
        default = self.habits.window if self.all_layers >= self.habits.window_layers_from else 0
        return self.blueprint.count("attention.sliding_window", default)

    @cached_property
    def vocabulary(self) -> int:
        """Tokens that the model can say, by the output matrix."""
        tensors = self.blueprint.by_name
        table = tensors.get("output.weight") or tensors.get("token_embd.weight")
        return table.shape[1] if table else self.blueprint.vocabulary

    @cached_property
    def windowed(self) -> list[bool]:
        """For each layer, whether it sees only the last tokens."""
        if not self.window:
            return [False] * self.all_layers
        key = "attention.sliding_window_pattern"
        pattern = self.blueprint.metadata.get(f"{self.blueprint.architecture}.{key}", self.habits.window_period)
        if isinstance(pattern, list):
            return [bool(p) for p in self.blueprint.per_layer(key, self.all_layers)]
        period = int(pattern) if not isinstance(pattern, str) else 0
        full = 0 if self.habits.window_full_first else period - 1
        return [il < self.layers and (period == 0 or il % period != full) for il in range(self.all_layers)]

    @cached_property
    def recurrent(self) -> list[bool]:
        """For each layer, whether it keeps a state in place of keys and values."""
        period = self.blueprint.count("full_attention_interval", self.habits.recurrent_period)
        if period:
            return [il < self.layers and il % period != period - 1 for il in range(self.all_layers)]
        tensors = self.blueprint.by_name
        return [f"blk.{il}.ssm_conv1d.weight" in tensors for il in range(self.all_layers)]

    def key_length(self, layer: int) -> int:
        """The length of a head's keys."""
        return self._head_length("key", layer)

    def value_length(self, layer: int) -> int:
        """The length of a head's values."""
        return self._head_length("value", layer)

    def _head_length(self, what: str, layer: int) -> int:
        heads = self.heads[0] if self.heads else 0
        full = self.blueprint.count(f"attention.{what}_length", self.width // heads if heads else 0)
        return self.blueprint.count(f"attention.{what}_length_swa", full) if self.windowed[layer] else full

    @property
    def is_latent(self) -> bool:
        """Whether keys and values are kept as one compressed row (multi-head latent attention)."""
        return self.blueprint.count("attention.key_length_mla") > 0

    def cache_layer(self, layer: int) -> int:
        """The layer whose cache this one reads: its own, or one that it shares."""
        own = self.layers_with_cache
        if layer < own:
            return layer
        return own - (2 if self.windowed[layer] else 1)

    @cached_property
    def layers_with_cache(self) -> int:
        """How many layers, from the first, have a cache of their own."""
        shared = self.blueprint.count("attention.shared_kv_layers")
        return self.all_layers - shared if shared else self.habits.layers_with_cache or self.all_layers

    def attends(self, layer: int) -> bool:
        """Whether a layer has keys and values."""
        return self.kv_heads[layer] > 0 and (not self.recurrent[layer] or self.habits.both_kinds)

    def has_own_cache(self, layer: int) -> bool:
        """Whether a layer keeps anything of its own."""
        if layer >= self.layers:
            return False
        return self.recurrent[layer] or (self.attends(layer) and layer < self.layers_with_cache)

    @cached_property
    def widest_values(self) -> int:
        """The most elements that the values of a token take in any layer."""
        return max(self.value_length(il) * self.kv_heads[il] for il in range(self.all_layers))

    def state_elements(self, layer: int) -> int:
        """The numbers that a recurrent layer keeps for each sequence: of its convolution, and of its memory."""
        if not self.recurrent[layer]:
            return 0
        return self.convolution_elements + self.memory_elements

    @cached_property
    def convolution_elements(self) -> int:
        """The last inputs of a recurrent layer's convolution."""
        number = self.blueprint.count
        if number("wkv.head_size"):
            return number("token_shift_count", 2) * self.width
        if number("shortconv.l_cache"):
            return self.width * (number("shortconv.l_cache") - 1)
        if number("kda.head_dim"):
            return 3 * (number("ssm.conv_kernel", 4) - 1) * self.heads[0] * number("kda.head_dim")
        channels = number("ssm.inner_size") + 2 * number("ssm.group_count") * number("ssm.state_size")
        return max(0, number("ssm.conv_kernel") - 1) * channels

    @cached_property
    def memory_elements(self) -> int:
        """The matrix that a recurrent layer carries from token to token."""
        number = self.blueprint.count
        if number("wkv.head_size"):
            return self.width * number("wkv.head_size")
        if number("kda.head_dim"):
            return number("kda.head_dim") ** 2 * self.heads[0]
        return number("ssm.state_size") * number("ssm.inner_size")

    @property
    def caps_scores(self) -> bool:
        """Whether attention scores are squeezed into a range."""
        return self.blueprint.number("attn_logit_softcapping") > 0

    @property
    def gating(self) -> int:
        """How a router turns scores into weights; softmax where the file does not say."""
        return self.blueprint.count("expert_gating_func", self.habits.gating)

    @property
    def normalises_weights(self) -> bool:
        """Whether the weights of the chosen experts are made to add up to one."""
        return bool(self.blueprint.number("expert_weights_norm", self.habits.normalises_weights))

    @property
    def scales_weights(self) -> bool:
        """Whether those weights are then multiplied by a number."""
        return self.blueprint.number("expert_weights_scale") not in (0, 1)

    @cached_property
    def has_delta_nets(self) -> bool:
        """Whether recurrent layers are gated delta networks."""
        return any(t.name.endswith((".ssm_beta.weight", ".ssm_ba.weight")) for t in self.blueprint.tensors)
