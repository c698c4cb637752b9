"""The largest numbers that are believed of a model, whoever states them: a file, a server, a snapshot.

A file of a few hundred bytes can claim any number, and time and memory grow with what it claims. Each bound lies well
above the largest model that is known; a number beyond it is refused by its name, and nothing is made of it.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, TypeAlias

import msgspec

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


def check_count(name: str, value: object, most: int = MOST_OF_ANYTHING) -> None:
    """ValueError where a number, or one of a list of them, is larger than that of any model."""
    numbers: Iterable[object] = value if isinstance(value, list) else (value,)
    for number in numbers:
        if isinstance(number, int | float) and number > most:
            said = f"{number:,}" if isinstance(number, int) else f"{number:g}"
            raise ValueError(f"claims {name} = {said}; the most that is believed is {most:,}")


def check_metadata(architecture: object, metadata: Mapping[str, object]) -> None:
    """ValueError where a number of a GGUF header can't be that of a model."""
    prefix = f"{architecture}."
    for key, value in metadata.items():
        if key.startswith(prefix):
            check_count(key, value, GGUF_BOUNDS.get(key.removeprefix(prefix), MOST_OF_ANYTHING))
