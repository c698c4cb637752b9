"""Made-up models in the form that MLX-LM loads: folders of random weights, and a tokenizer of letters."""

import json
import struct
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float32]
_SCALE = 0.02


class Shape(NamedTuple):
    """A dense Llama in F32: on a CPU MLX computes BF16 and 4 bits many times slower."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    inner: int
    seed: int = 1


MODELS = {
    "mlx_135m": Shape(30, 576, 9, 3, 1536),
    "mlx_300m": Shape(24, 1024, 16, 8, 2816),
    "mlx_30m": Shape(6, 576, 9, 3, 1536),
    "mlx_draft": Shape(6, 576, 9, 3, 1536, seed=2),
}
"""By the name of the folder."""


def make_models(folder: Path) -> None:
    """Write those that are not there yet."""
    for name, shape in MODELS.items():
        if not (folder / name / "config.json").is_file():
            print(f"making {folder / name}", flush=True)
            write_model(folder / name, shape)


def write_model(folder: Path, shape: Shape) -> None:
    """The weights, the tokenizer, and last the config, which says that it is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary, merges = letters()
    _write_tensors(folder / "model.safetensors", dict(_tensors(shape, len(vocabulary))))
    _write_json(folder / "tokenizer.json", _tokenizer(vocabulary, merges))
    _write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", "model_max_length": 32768,
        "chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:",
    })  # fmt: skip
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": shape.width,
        "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads,
        "intermediate_size": shape.inner, "vocab_size": len(vocabulary), "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "max_position_embeddings": 32768, "tie_word_embeddings": True, "torch_dtype": "float32",
        "eos_token_id": vocabulary["<end>"],
    }  # fmt: skip
    _write_json(folder / "config.json", config)


def letters() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Every byte, every two and every three letters: about 18,000 tokens, and how they are put together."""
    printable = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256))]
    others = [chr(256 + n) for n in range(256 - len(printable))]  # as GPT-2 writes bytes that do not print
    pairs = [(a, b) for a, b in product(ascii_lowercase, repeat=2)]
    triples = [(a + b, c) for (a, b), c in product(pairs, ascii_lowercase)]
    names = [*printable, *others, *(a + b for a, b in (*pairs, *triples)), "<end>"]
    return {name: number for number, name in enumerate(names)}, [*pairs, *triples]


def _tokenizer(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> dict[str, Any]:
    end = {"id": vocabulary["<end>"], "content": "<end>", "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}  # fmt: skip
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary,
             "merges": [list(pair) for pair in merges]}  # fmt: skip
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": bytes_, "post_processor": None, "decoder": bytes_, "model": model}  # fmt: skip


def _tensors(shape: Shape, vocabulary: int) -> Iterator[tuple[str, Weights]]:
    dice = np.random.default_rng(shape.seed)
    kv, width, inner = shape.width // shape.heads * shape.kv_heads, shape.width, shape.inner
    projections = {"self_attn.q": (width, width), "self_attn.k": (kv, width), "self_attn.v": (kv, width),
                   "self_attn.o": (width, width), "mlp.gate": (inner, width), "mlp.up": (inner, width),
                   "mlp.down": (width, inner)}  # fmt: skip

    def weights(*size: int) -> Weights:
        return dice.standard_normal(size, np.float32) * np.float32(_SCALE)

    yield "model.embed_tokens.weight", weights(vocabulary, width)
    for layer in range(shape.layers):
        for name, size in projections.items():
            yield f"model.layers.{layer}.{name}_proj.weight", weights(*size)
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"model.layers.{layer}.{name}.weight", np.ones(width, np.float32)
    yield "model.norm.weight", np.ones(width, np.float32)


def _write_tensors(path: Path, tensors: dict[str, Weights]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    at = 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(written)) + written)
        for values in tensors.values():
            file.write(values.tobytes())


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
