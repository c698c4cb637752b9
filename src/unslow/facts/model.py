"""What a model is: its shape and its bytes, never its weights."""

from unslow.facts.blueprint import Value
from unslow.facts.machine import Facts
from unslow.facts.model_bounds import Context, Experts, FeedForward, HeadLength, Heads, Layers, Vocabulary, Width
from unslow.facts.tensor_table import Table
from unslow.facts.values import NOT_LOOKED, Bytes, Count, Fact


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
    tensors: Fact[Table] = NOT_LOOKED
    """Every tensor, layers that are alike once."""
    metadata: Fact[dict[str, Value]] = NOT_LOOKED
    """The architecture's own keys of a GGUF file, such as `llama.block_count`."""
