"""The model that a row of a table means: as people write it, or as llama-bench prints it (`qwen3moe 30B.A3B Q4_K`)."""

import re
from functools import cache, lru_cache

from unslow.catalog.models import WellKnown, find_model, listed_models, well_known
from unslow.catalog.quants import find_mix
from unslow.facts.errors import UserError
from unslow.facts.values import GIB
from unslow.think.blueprints import made_up
from unslow.think.speed.load import ModelLoad, model_load

_QUANT_AND_AFTER = re.compile(
    r"(?i)\b(?:i?q\d\w*|tq\d\w*|b?f16\w*|fp16|f32|mxfp4|i2_s)\b(?:\s+mix)?(?:\s*-\s*(?:small|medium|large))?(?s:.*)"
)
_NOT_THE_NAME = re.compile(
    r"(?i)\b(?:moe|ollama|llama\.cpp|vllm-mlx|vllm|mlx-vlm|mlx|omlx|dense|instruct|ssd-paged|4bit|int4)\b|\([^()]{0,200}\)"
)
_SIZE = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?)\s*b\b")
_SPARSE = re.compile(r"(?i)a\d+(?:\.\d+)?b|moe|\dx\d")
_PLAIN = frozenset({"llama", "qwen2", "qwen3", "phi3", "gemma3", "mistral3", "nemotron"})
"""Architectures whose dense models stand for others of their size."""
_SAME_NAME, _SAME_SIZE, _LABEL, _NEAR = 0.2, 0.05, 0.35, 0.12
"""How far parameters may be off: with a name that says it all, within an architecture, as a label, of a stand-in."""
_FOR_EXPERTS = "MXFP4_MOE"
_BENCH_WORDS = 2
_BILLION = 1e9
_MIX = {
    "FP16": "F16", "FP32": "F32", "4-BIT": "Q4_0", "4BIT": "Q4_0", "INT4": "Q4_0", "Q4": "Q4_K_M", "Q5": "Q5_K_M",
    "Q6": "Q6_K", "Q8": "Q8_0", "8-BIT": "Q8_0", "8BIT": "Q8_0", "MXFP4": "MXFP4_MOE", "IQ4_K": "IQ4_XS",
    "IQ5_K": "Q5_K_S", "IQ3_K": "IQ3_S", "IQ2_BN": "TQ2_0", "I2_S": "TQ2_0", "Q4_K_XL": "Q4_K_M", "Q3_K_XL": "Q3_K_L",
    "Q2_K_XL": "Q2_K_L", "Q5_K_XL": "Q5_K_M", "Q6_K_XL": "Q6_K", "Q8_K_XL": "Q8_0", "FP8": "Q8_0",
}  # fmt: skip
"""Quants that are not mixes of llama.cpp, by the one that is nearest: a file's size corrects the rest."""


@lru_cache(maxsize=8192)
def named_model(name: str, parameters: float = 0.0, *, stand_in: bool = True) -> WellKnown | None:
    """The model that is meant, else a dense one of the same size, if that may stand in; None where nothing is clear."""
    text = re.sub(r"\s+", " ", _NOT_THE_NAME.sub(" ", _QUANT_AND_AFTER.sub("", name))).strip()
    label = _SIZE.search(text)
    size = parameters or (float(label[1]) * _BILLION if label else 0.0)
    words = text.split()
    listed = _by_architecture().get(_plain(words[0])) if words and len(words) <= _BENCH_WORDS else None
    if listed and size:
        # As llama-bench prints it: the architecture and a size; some names of architectures are names of families too
        found = _nearest(listed, size, _SAME_SIZE if parameters else _LABEL)
        found = found or _nearest(listed_models(words[0]), size, _SAME_SIZE)
    else:
        found = _by_name(name, text, parameters)
    if found or not stand_in or not size or _SPARSE.search(name):
        return found
    dense = [m for m in well_known().values() if not m.shape.experts and m.architecture in _PLAIN]
    return _nearest(dense, size, _NEAR)


def _by_name(name: str, text: str, parameters: float) -> WellKnown | None:
    # Also without what somebody who trained it further put after its size: of `Qwen3-8B-Clever`, `Qwen3-8B`
    sizes = [m.end() for m in re.finditer(r"(?i)\d[bm](?=[-_ ])", text)]
    for written in (name, text, *(text[:end] for end in reversed(sizes))):
        try:
            model = find_model(written)
        except UserError:
            continue
        if not parameters or abs(model.parameters / parameters - 1) < _SAME_NAME:
            return model
    return None


def _nearest(models: list[WellKnown], size: float, off: float) -> WellKnown | None:
    found = min(models, key=lambda m: abs(m.parameters / size - 1), default=None)
    return found if found and abs(found.parameters / size - 1) < off else None


def _plain(word: str) -> str:
    return re.sub(r"[-_.]", "", word.lower())


@cache
def _by_architecture() -> dict[str, list[WellKnown]]:
    found: dict[str, list[WellKnown]] = {}
    for model in well_known().values():
        found.setdefault(_plain(model.architecture), []).append(model)
    return found


def named_load(model: WellKnown, quant: str, gib: float = 0.0) -> ModelLoad:
    """What a token asks of a model in a quant, all weights scaled to the size that its file has, where that is said."""
    mix = mix_of(quant)
    if mix == _FOR_EXPERTS and not model.shape.experts:
        mix = "Q4_0"  # as many bits; that mix leaves a dense model in 8
    load = _plain_load(model.name, mix)
    return load.scale(gib * GIB / load.file_bytes) if gib else load


@lru_cache(maxsize=4096)
def mix_of(quant: str) -> str:
    """The mix of llama.cpp that a quant is, or is nearest to."""
    text = quant.upper().strip(" ?").removeprefix("UD-").removeprefix("GGUF-")
    text = _MIX.get(text, text)
    try:
        find_mix(text)
    except UserError:
        # The plain mix with as many bits as a scheme's name says: W4A16 has 4
        bits = re.search(r"W(\d{1,2})A|INT-?(\d)|(\d)-?BIT|FP(\d{1,2})|(\d)(?:\.\d+)?-?BPW", text)
        number = next((int(group) for group in bits.groups() if group), 0) if bits else 0
        if not number:
            number = 16 if "16" in text else 8 if "8" in text else 4
        return "F16" if number >= 16 else "Q8_0" if number == 8 else "Q6_K" if number == 6 else "Q4_K_M"  # noqa: PLR2004
    return text


@lru_cache(maxsize=1024)
def _plain_load(name: str, mix: str) -> ModelLoad:
    return model_load(made_up({model.name: model for model in well_known().values()}[name], mix))
