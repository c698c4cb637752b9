"""Models with hostile numbers: sound ones, made small, with some of their fields changed."""

import json
import re
import struct
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from unslow.catalog.models import well_known
from unslow.catalog.quants import quants
from unslow.facts.model import Blueprint, Tensor
from unslow.look.engine.made_up_models import padding
from unslow.look.models.hf_config import NAMES
from unslow.think.blueprints import made_up

ROOT = Path(__file__).parents[2]
COUNTS = [0, 1, 2, 3, 7, 255, 4096, 65_536, 2**20, 2**24, 2**31 - 1, 2**32 - 1, 2**40, 2**53, 2**63 - 1]
OTHERS = [-1, 0.5, 1e-320, 1e308, "", "x", True, [], [1], [2**31 - 1] * 3, [0] * 600]
LAYERS = (1, 2, 6)
_READ = re.compile(r"""\b(?:count|number|per_layer)\(\s*f?"([a-z][a-z0-9_.]+)"|\bkey = "([a-z][a-z0-9_.]+)\"""")
_LAYER = re.compile(r"blk\.(\d+)\.")
_CODES = {bool: (7, "?"), int: (11, "q"), float: (12, "d")}
_STRING, _ARRAY = 8, 9


@cache
def gguf_keys() -> list[str]:
    """Every key of an architecture that the program reads, as its source spells them."""
    sources = (path.read_text() for path in (ROOT / "src/unslow").rglob("*.py"))
    return sorted({a or b for source in sources for a, b in _READ.findall(source)})


@cache
def config_keys() -> list[str]:
    """Every key of a `config.json` that the program reads as a number."""
    kinds = (ROOT / "src/unslow/look/models/hf_config.py").read_text()
    return sorted(
        {k for keys in NAMES.values() for k in keys} | set(re.findall(r'text(?:\.get\(|, )"([a-z_]+)"', kinds))
    )


@cache
def one_of_each_architecture() -> list[str]:
    """A model of every architecture that the catalogue knows."""
    return list({model.architecture: name for name, model in well_known().items()}.values())


@cache
def small(name: str, layers: int) -> Blueprint:
    """The first layers of a model."""
    model = well_known()[name]
    whole = made_up(model, "Q4_K_M")
    kept = [t for t in whole.tensors if not (m := _LAYER.match(t.name)) or int(m[1]) < layers]
    metadata = {**whole.metadata, f"{model.architecture}.block_count": min(layers, whole.count("block_count"))}
    return Blueprint(architecture=model.architecture, metadata=metadata, tensors=kept, vocabulary=whole.vocabulary)


def hostile_gguf(dice: Random) -> bytes:
    """The header of a model with some keys and tensors changed."""
    plan = small(dice.choice(one_of_each_architecture()), dice.choice(LAYERS))
    metadata: dict[str, Any] = dict(plan.metadata)
    tensors = list(plan.tensors)
    for _ in range(dice.choice((0, 1, 1, 1, 2, 4))):
        present = [k for k in metadata if k.startswith(f"{plan.architecture}.")]
        key = dice.choice(present) if dice.random() < 0.7 else f"{plan.architecture}.{dice.choice(gguf_keys())}"
        metadata[key] = dice.choice(COUNTS if dice.random() < 0.7 else OTHERS)
    for _ in range(dice.choice((0, 0, 1, 1, 2))):
        _change_tensors(dice, tensors)
    return gguf_bytes(metadata, tensors)


def _change_tensors(dice: Random, tensors: list[Tensor]) -> None:
    if not tensors:
        return
    at = dice.randrange(len(tensors))
    one = tensors[at]
    match dice.randrange(7):
        case 0:
            del tensors[at]
        case 1:
            del tensors[dice.randrange(2) :: 2]
        case 2:
            tensors.clear()
        case 3:  # of another rank
            tensors[at] = one._replace(shape=one.shape[: dice.randrange(len(one.shape) + 1)] or ())
        case 4:  # one length, or one dimension more
            shape = [*one.shape, 1, 1, 1][: dice.randrange(len(one.shape), 5)] or [1]
            shape[dice.randrange(len(shape))] = dice.choice(COUNTS[:10])
            tensors[at] = one._replace(shape=tuple(shape), type="F32")
        case 5:
            tensors[at] = one._replace(type=dice.choice(("F32", "F16", "Q8_0", "TQ1_0", "I32")))
        case _:  # of a layer that is not there
            tensors[at] = one._replace(
                name=f"blk.{dice.choice((3, 99, 511, 9999))}.{one.name.rpartition('.')[0]}.weight"
            )


def gguf_bytes(metadata: dict[str, Any], tensors: list[Tensor]) -> bytes:
    """A header with these keys and tensors; numbers that no writer would write are written all the same."""
    named = {t.name: t for t in tensors}
    infos, offset = [], 0
    for tensor in named.values():
        quant = quants()[tensor.type]
        infos.append(
            _text(tensor.name)
            + struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
            + struct.pack("<IQ", quant.ggml_type, offset)
        )
        elements = 1
        for length in tensor.shape:
            elements *= length
        size = quant.bytes_of(elements)
        offset = min(offset + size + padding(size), 2**60)
    keys = [_text(key) + _value(value) for key, value in metadata.items()]
    return b"GGUF" + struct.pack("<IQQ", 3, len(named), len(keys)) + b"".join(keys + infos)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, list):
        return struct.pack(f"<IIQ{len(value)}q", _ARRAY, 11, len(value), *value)
    kind, code = _CODES[type(value)]
    return struct.pack(f"<I{code}", kind, value)


@cache
def configs() -> list[dict[str, Any]]:
    """Configs of many families, as their files have them."""
    return [
        json.loads(path.read_bytes())["config"] for path in sorted((ROOT / "tests/look/models/configs").glob("*.json"))
    ]


def hostile_checkpoint(dice: Random) -> dict[str, bytes]:
    """The files of a folder: a config with some numbers changed, beside weights that may not belong to it."""
    config = json.loads(json.dumps(dice.choice(configs())))
    places = [config, *(v for v in config.values() if isinstance(v, dict))]
    for place in places:
        if "num_hidden_layers" in place and dice.random() < 0.8:
            place["num_hidden_layers"] = dice.choice(LAYERS)
    for _ in range(dice.choice((0, 1, 1, 2, 4))):
        place = dice.choice(places)
        numbers = [k for k, v in place.items() if isinstance(v, int | float | list)]
        key = dice.choice(numbers) if numbers and dice.random() < 0.6 else dice.choice(config_keys())
        place[key] = dice.choice(COUNTS if dice.random() < 0.7 else OTHERS)
    layers = [dice.choice((0, 1, 5, 99, 9999, 10**9)) for _ in range(dice.randrange(4))]
    names = ["model.embed_tokens.weight", *(f"model.layers.{n}.mlp.up_proj.weight" for n in layers), "lm_head.weight"]
    return {"config.json": json.dumps(config).encode(), "model.safetensors": safetensors_bytes(dice, names)}


def safetensors_bytes(dice: Random, names: list[str]) -> bytes:
    """A file with these tensors, of a few bytes each."""
    header, offset = {}, 0
    for name in dict.fromkeys(dice.sample(names, dice.randrange(len(names) + 1))):
        shape = dice.choice(([4, 4], [16], [], [0], [1, 0, 7]))
        size = 2
        for length in shape:
            size *= length
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(offset)
