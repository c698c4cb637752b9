"""A model's numbers for each layer and its small traits, as llama.cpp reads them from the header."""

from functools import cached_property
from typing import NamedTuple

from unslow.catalog.architectures import Architecture, architecture
from unslow.facts.errors import UserError
from unslow.facts.model import Blueprint
from unslow.facts.values import pad_to
from unslow.think.memo import remember_once

CELLS_PADDING = 256  # the context, and the cells of each slot, are multiples of this


class Settings(NamedTuple):
    """The settings that decide memory."""

    context: int = 4096  # All tokens together (`-c`); divided among the slots unless they share one cache
    batch: int = 2048
    micro_batch: int = 512
    slots: int = 1
    unified: bool = False  # Whether the slots share one cache (`-kvu`)
    key_type: str = "F16"
    value_type: str = "F16"
    flash_attention: bool | None = None  # None lets llama.cpp decide: on, where every layer's device can compute it
    outputs: int = 0  # The most tokens of a batch whose logits are wanted: a server's slots; 0 means every token
    gpu_layers: int = -1  # How many layers go to the GPUs, the output counted as one; -1 for all
    cache_on_gpu: bool = True
    offload_ops: bool = True  # Whether GPUs borrow weights of the host for long prompts (not with `--no-op-offload`)
    full_windows: bool = False  # Whether sliding-window layers keep the whole context (`--swa-full`)
    experts_on_cpu: int = 0  # Of how many layers, from the first, the experts stay on the host (`--n-cpu-moe`)
    overrides: tuple[tuple[str, str], ...] = ()  # Patterns of tensor names, and the device that they go to (`-ot`)
    split: tuple[float, ...] = ()  # The shares of several GPUs; by their free memory where empty
    fuses: bool = False  # Whether CUDA keeps what its fused kernels read, as builds after b10586 do (see scheduler.py)

    @property
    def transposes_values(self) -> bool:
        """Whether values lie transposed in the cache: where flash attention is forbidden, not where it only fails."""
        return self.flash_attention is False

    @property
    def cache_types(self) -> str:
        """The type of keys and values in small letters; both where they differ, the keys' first."""
        key, value = self.key_type.lower(), self.value_type.lower()
        return key if key == value else f"{key}/{value}"

    @property
    def slot_context(self) -> int:
        """The cells that a slot has, as llama.cpp pads them."""
        whole = pad_to(self.context, CELLS_PADDING)
        return whole if self.unified else pad_to(whole // self.slots, CELLS_PADDING)

    @property
    def streams(self) -> int:
        return 1 if self.unified else self.slots

    @property
    def whole_context(self) -> int:
        """What the context comes to after padding."""
        return self.slot_context * self.streams

    @property
    def used_batch(self) -> int:
        """The batch, which the context limits."""
        return min(self.batch, self.context)

    @property
    def used_micro_batch(self) -> int:
        """The largest piece of a batch that is computed at once."""
        return min(self.used_batch, self.micro_batch or self.used_batch)

    @property
    def tokens(self) -> int:
        """The tokens of that piece, equally many of each slot."""
        return pad_to(min(self.whole_context, self.used_micro_batch), self.slots)

    @property
    def most_outputs(self) -> int:
        """The tokens of a piece whose logits are wanted at most."""
        return min(self.whole_context, self.used_micro_batch, self.outputs or self.used_batch)


def ollama_micro_batch(context: int) -> int:
    """What Ollama takes for a context of one request where memory allows it, else 512."""
    # generationBatchForContext in its server/sched.go, since 0.30.
    return 512 if context <= 4096 else 1024 if context <= 32768 else 2048  # noqa: PLR2004


MOST_LAYERS = 512  # as many as llama.cpp takes (LLAMA_MAX_LAYERS)
LOW_RATIO, HIGH_RATIO = 4, 128  # the tokens that make up a compressed row: few, of which an indexer picks, or many
_POSITIONS_IN_SPACE = 4  # time, height, width and one more, where images have places too
_STATE_TENSORS = ("ssm_conv1d", "ssm_conv1d_q", "shortconv.conv", "time_mix_key")  # A layer with one of them has states


class Traits:
    """What is scaled, normed, bounded or weighed, and how."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.habits: Architecture = architecture(blueprint.architecture)
        self.experts = blueprint.count("expert_count")
        self._clamped: dict[str, str] = {}
        habits = self.habits
        self.norms_turned_heads = habits.norms_turned_heads and self.experts != habits.norms_not_with_experts
        """Whether queries and keys get a norm without weights after they were turned (Llama 4, but for the largest)."""
        self.clamps_heads = self._value_in_file("attention.clamp_kqv") > 0
        self.tempers = self._value_in_file("attention.temperature_scale") != 0
        """Whether queries are multiplied by a factor that grows with the position."""
        self.is_parallel = habits.is_parallel_by_file and bool(blueprint.number("use_parallel_residual"))
        """Whether both halves of a layer read the same although each has its norm."""
        self.scales_residuals = habits.scales_residuals or self._value_in_file("residual_scale") != 0
        """Whether what a half says is multiplied by a number before it is added."""
        self.scales_embeddings = habits.scales_embeddings or self._value_in_file("embedding_scale") != 0
        self.scales_logits = habits.scales_logits or self._value_in_file("logit_scale") != 0
        self.caps_logits = habits.caps_logits or self._value_in_file("final_logit_softcapping") != 0
        self.scales_values = self._value_in_file("attention.value_scale") not in (0, 1)
        """Whether the result of attention is multiplied by a number."""
        self.normalises_weights = bool(self._value_in_file("expert_weights_norm", habits.normalises_weights))
        """Whether the weights of the chosen experts are made to add up to one."""
        self.scales_weights = self._value_in_file("expert_weights_scale") not in (0, 1)
        self.reads_cache = habits.has_cache and habits.reads_cache
        """Whether attention reads the cache, and not the tokens of the batch alone."""
        keys = (f"{blueprint.architecture}.attention.layer_norm{kind}_epsilon" for kind in ("_rms", ""))
        has_rms, has_plain = (key in blueprint.metadata for key in keys)
        self.norm = habits.norm or ("norm" if has_plain and not has_rms else "rms_norm")
        """The norm between parts of a layer, as ggml names it."""
        names = ("output_norm", "enc.output_norm", *(("token_embd_norm",) if habits.has_output else ()))
        bare = "output_norm" if habits.norms_without_weights else ""
        self.last_norm = next((name for name in names if f"{name}.weight" in blueprint.by_name), bare)
        """The name of the norm after the last layer; empty where there is none."""
        self.leading_dense = blueprint.count("leading_dense_block_count")  # Layers, from the first, without experts

    def _value_in_file(self, key: str, default: float = 0) -> float:
        return self.blueprint.number(key, default) if key in self.habits.heeds else default

    def clamps(self, what: str, layer: int) -> bool:
        """Whether a layer keeps the activations of its experts (`exp`), or of its other network, within limits."""
        key = self._clamped.get(what)
        if key is None:
            # The key with those limits; empty where there are none
            keys = (f"swiglu_clamp_{what}", *(("swiglu_clamp_exp",) if self.habits.clamps_first else ()))
            clamp = next((key for key in keys if self.blueprint.number(key)), "")
            key = self._clamped[what] = clamp
        return bool(key) and self.blueprint.per_layer(key, layer + 1)[layer] > 0

    @cached_property
    def gating(self) -> int:
        """How a router turns scores into weights; softmax where the file does not say."""
        return int(self._value_in_file("expert_gating_func", self.habits.gating))


def hyper_of(blueprint: Blueprint) -> "Hyper":
    """The numbers of a model, read once in a judgement."""
    return remember_once(blueprint, "hyper", lambda: Hyper(blueprint))


class Hyper(Traits):
    """The numbers behind a compute graph."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__(blueprint)
        self._loops = max(1, blueprint.count("num_loops", 1))
        self._blocks = blueprint.count("block_count")
        self._lengths: dict[tuple[str, bool], int] = {}
        self.all_layers = self._blocks * self._loops
        if not 0 < self.all_layers <= MOST_LAYERS:
            raise UserError(
                f"a model of {self.all_layers} layers cannot be loaded", f"llama.cpp supports 1 to {MOST_LAYERS} layers"
            )
        # How many layers only predict further tokens; none where their tensors must tell, and are not there
        count = self.blueprint.count("nextn_predict_layers")
        first = f"blk.{self.all_layers - count}.nextn.eh_proj.weight"
        drafts = 0 if self.habits.drafts_need_tensors and first not in self.blueprint.by_name else count
        self.layers = self.all_layers - drafts  # Without the layers that only predict further tokens
        shared = blueprint.count("attention.shared_kv_layers")
        self.layers_with_cache = (
            self.all_layers - shared if shared else self.habits.layers_with_cache or self.all_layers
        )
        """How many layers, from the first, have a cache of their own."""
        table = blueprint.by_name.get("output.weight") or blueprint.by_name.get("token_embd.weight")
        self.vocabulary = table.shape[-1] if table and table.shape else blueprint.vocabulary
        """Tokens that the model can say, by the output matrix."""
        self.width = blueprint.count("embedding_length")
        self.heads = blueprint.per_layer("attention.head_count", self.all_layers)
        grouped = f"{blueprint.architecture}.attention.head_count_kv" in blueprint.metadata
        self.kv_heads = blueprint.per_layer("attention.head_count_kv", self.all_layers) if grouped else self.heads
        self.experts_used = blueprint.per_layer("expert_used_count", self.all_layers)
        self.window = 0
        if self.habits.has_windows and self.all_layers >= self.habits.window_layers_from:
            said = blueprint.count("attention.sliding_window", self.habits.window)
            self.window = said and (self.habits.window_fixed or said)
        sections = blueprint.metadata.get(f"{blueprint.architecture}.rope.dimension_sections")
        in_space = self.habits.positions_by_file and isinstance(sections, list) and all(sections[:2])
        self.compressions = blueprint.per_layer("attention.compress_ratios", self.all_layers)
        """For each layer, how many tokens make up a compressed row; 0 where it sees the last tokens alone."""
        self.positions = _POSITIONS_IN_SPACE if in_space else self.habits.positions  # Position numbers for each token
        self.is_latent = blueprint.count("attention.key_length_mla") > 0
        """Whether keys and values are kept as one compressed row (multi-head latent attention)."""
        self.is_compressed = blueprint.count("attention.compress_ratios") > 0
        """Whether older tokens are kept as compressed rows (DeepSeek 4)."""
        self.index_length = blueprint.count("attention.indexer.key_length")
        """The length of the keys by which sparse attention picks its tokens; 0 without it."""
        self.is_rwkv = "blk.0.time_mix_key.weight" in blueprint.by_name
        self.token_shifts = blueprint.count("token_shift_count", 2)
        """How many of the last inputs a layer of RWKV keeps: one for each half that mixes with them."""
        self.rope_pattern = blueprint.per_layer("attention.rope_pattern", self.all_layers, default=1)
        """For each layer, whether the file lets it turn by positions."""

    def block(self, layer: int) -> str:
        """What the names of a layer's tensors begin with."""
        return f"{self.habits.block}.{layer % self._blocks}"

    def ends_loop(self, layer: int) -> bool:
        """Whether the layers begin anew after this one, with a norm before that."""
        is_last = (layer + 1) % self._blocks == 0 and layer + 1 < self.layers
        return is_last and not self.blueprint.number("skip_loop_final_norm")

    @cached_property
    def layer_windows(self) -> list[bool]:
        """For each layer, whether it sees only the last tokens."""
        if not self.window:
            return [False] * self.all_layers
        key = "attention.sliding_window_pattern"
        pattern = self.blueprint.metadata.get(f"{self.blueprint.architecture}.{key}", self.habits.window_period)
        if isinstance(pattern, list):
            return [bool(p) for p in self.blueprint.per_layer(key, self.all_layers)]
        period = int(pattern) if not isinstance(pattern, str) else 0
        full = 0 if self.habits.window_full_first else period - 1
        end = self.all_layers if self.habits.window_drafts else self.layers
        return [il < end and (period == 0 or il % period != full) for il in range(self.all_layers)]

    @cached_property
    def recurrent(self) -> list[bool]:
        """For each layer, whether it keeps a state in place of keys and values."""
        key = "attention.recurrent_layers"
        if f"{self.blueprint.architecture}.{key}" in self.blueprint.metadata:
            return [bool(n) for n in self.blueprint.per_layer(key, self.all_layers)]
        period = self.blueprint.count("full_attention_interval", self.habits.recurrent_period)
        if period:
            return [il < self.layers and il % period != period - 1 for il in range(self.all_layers)]
        tensors = self.blueprint.by_name
        return [any(f"blk.{il}.{t}.weight" in tensors for t in _STATE_TENSORS) for il in range(self.all_layers)]

    def key_length(self, layer: int) -> int:
        return self._head_length("key", layer)

    def value_length(self, layer: int) -> int:
        return self._head_length("value", layer)

    def _head_length(self, what: str, layer: int) -> int:
        kind = what, self.layer_windows[layer]
        if kind not in self._lengths:
            heads = self.heads[0] if self.heads else 0
            full = self.blueprint.count(f"attention.{what}_length", self.width // heads if heads else 0)
            self._lengths[kind] = self.blueprint.count(f"attention.{what}_length_swa", full) if kind[1] else full
        return self._lengths[kind]

    def has_indexer(self, layer: int) -> bool:
        """Whether a layer picks tokens itself, and does not take those of the layer before."""
        names = (f"{self.block(layer)}.indexer.{key}.weight" for key in ("attn_k", "k_proj"))
        return any(name in self.blueprint.by_name for name in names)

    def attends(self, layer: int) -> bool:
        """Whether a layer has keys and values."""
        return self.kv_heads[layer] > 0 and (not self.recurrent[layer] or self.habits.both_kinds)

    def has_own_cache(self, layer: int) -> bool:
        """Whether a layer keeps anything of its own."""
        if not self.habits.has_cache or (layer >= self.layers and not self.habits.caches_drafts):
            return False
        if self.recurrent[layer]:
            return True
        in_cache = self.attends(layer) or not any(self.recurrent)
        return in_cache and layer < self.layers_with_cache

    @cached_property
    def widest_values(self) -> int:
        """The most elements that the values of a token take in any layer."""
        return max(self.value_length(il) * self.kv_heads[il] for il in range(self.all_layers))

    @cached_property
    def convolution_elements(self) -> int:
        """The last inputs of a recurrent layer's convolution."""
        number = self.blueprint.count
        if number("wkv.head_size"):
            return self.token_shifts * self.width
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
        if not number("ssm.inner_size") and not number("shortconv.l_cache"):
            return self.key_length(0) ** 2 * self.heads[0]
        return number("ssm.state_size") * number("ssm.inner_size")

    @cached_property
    def has_delta_nets(self) -> bool:
        return any(t.name.endswith((".ssm_beta.weight", ".ssm_ba.weight")) for t in self.blueprint.tensors)
