"""A model of any shape with random weights: llama.cpp loads it and runs it at the speed of the shape."""

import struct
from collections.abc import Callable, Iterable
from typing import BinaryIO, NamedTuple

from unslow.catalog.quants import mix, quants_by_ggml_type
from unslow.catalog.shapes import Shape
from unslow.look.engine.gguf_writer import Float32, Int32, TensorPlan, Value, encoded_header, padding
from unslow.look.engine.layout import tensors
from unslow.look.engine.random_blocks import Blocks

Progress = Callable[[int, int], None]

_UNKNOWN, _CONTROL, _BYTE, _NORMAL = 2, 3, 6, 1  # llama.h, llama_token_type
_ONE = struct.pack("<f", 1.0)
_NEWS_BYTES = 32 * 1024**2


def silence(_done: int, _total: int) -> None:
    """Progress that nobody hears of."""


class MadeUp(NamedTuple):
    """A model that is planned down to the byte and not yet written."""

    header: bytes
    tensors: list[TensorPlan]

    @property
    def file_bytes(self) -> int:
        """The size that the file will have."""
        return len(self.header) + sum(t.bytes + padding(t.bytes) for t in self.tensors)


def planned(shape: Shape, quant: str, name: str) -> MadeUp:
    """The model of that shape in that mix of types; KeyError where the mix can't be made up."""
    plans = list(tensors(shape, quant))
    metadata: dict[str, Value] = {
        "general.architecture": shape.architecture,
        "general.name": name,
        "general.file_type": mix(quant)[0].id,
        "unslow.made_up": True,
        **{f"{shape.architecture}.{key}": value for key, value in _hyperparameters(shape).items()},
        **{f"tokenizer.ggml.{key}": value for key, value in _tokenizer(shape.vocabulary).items()},
    }
    return MadeUp(encoded_header(metadata, plans), plans)


def write(model: MadeUp, file: BinaryIO, progress: Progress = silence) -> None:
    """Write the model; `progress` hears now and then how many bytes are done, and of how many."""
    pools: dict[int, Blocks] = {}
    done = told = file.write(model.header)
    for tensor in model.tensors:
        for piece in (*_pieces(tensor, pools), bytes(padding(tensor.bytes))):
            done += file.write(piece)
            if done - told >= _NEWS_BYTES:
                told = done
                progress(done, model.file_bytes)
    progress(done, model.file_bytes)


def _pieces(tensor: TensorPlan, pools: dict[int, Blocks]) -> Iterable[bytes | memoryview]:
    """The tensor's bytes: ones for a norm, random blocks for all else."""
    if tensor.name.endswith("norm.weight"):
        return (_ONE * (tensor.bytes // len(_ONE)),)
    if tensor.ggml_type not in pools:
        pools[tensor.ggml_type] = Blocks(quants_by_ggml_type()[tensor.ggml_type])
    return pools[tensor.ggml_type].take(tensor.bytes)


def _hyperparameters(shape: Shape) -> dict[str, Value]:
    experts: dict[str, Value] = {
        "expert_count": shape.experts,
        "expert_used_count": shape.experts_used,
        "expert_feed_forward_length": shape.feed_forward,
    }
    return {
        "block_count": shape.layers,
        "context_length": shape.context_trained,
        "embedding_length": shape.width,
        "feed_forward_length": shape.feed_forward,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head_length,
        "attention.value_length": shape.head_length,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": shape.head_length,
        "rope.freq_base": shape.rope_base,
        "vocab_size": shape.vocabulary,
        **(experts if shape.experts else {}),
    }


def _tokenizer(vocabulary: int) -> dict[str, Value]:
    """A SentencePiece vocabulary in which every byte of a prompt is one token, and which says words of its own."""
    special = ["<unk>", "<s>", "</s>"]
    single_bytes = [f"<0x{n:02X}>" for n in range(256)]
    space = ["▁"]
    first_word = len(special + single_bytes + space)
    words = space + [f"▁w{n}" for n in range(first_word, vocabulary)]
    tokens = special + single_bytes + words
    return {
        "model": "llama",
        "tokens": tokens,
        "scores": Float32([0.0] * len(tokens)),
        "token_type": Int32([_UNKNOWN, _CONTROL, _CONTROL] + [_BYTE] * len(single_bytes) + [_NORMAL] * len(words)),
        "unknown_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "add_bos_token": False,
        "add_space_prefix": False,
    }
