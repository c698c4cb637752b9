"""The models and quants that a text speaks of, and the numbers that a claim about one is held against."""

import math
import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from unslow.catalog.models import Shape, WellKnown, all_names, listed_models, model_at
from unslow.catalog.quants import mixes
from unslow.facts.model import Tensor
from unslow.think.blueprints import made_up
from unslow.think.memory.llama_cpp.cache import layer_caches
from unslow.think.memory.llama_cpp.hyperparameters import Hyper, Settings

_WORD = re.compile(r"\d{1,3}x\d{1,3}b|[a-z0-9]+(?:\.\d+)*(?:[bm]\b)?")
_SIZE = re.compile(r"(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)([bmt])")
_NOISE = frozenset({"instruct", "it", "chat", "base", "gguf", "hf", "meta", "model", "the"})
_BREAK = re.compile(r"[;=]|[.,:](?=\s)|\s(?:on|at|vs|versus|with|for|and|or)\s")
_COUNTED = re.compile(r"\s?(?:total|active|activated|parameters|params|weights)\b")
_ACTIVE = re.compile(r"[\s\-_.]?a(\d{1,3}(?:\.\d)?)b\b|[^.;]{0,20}?\b(\d{1,3}(?:\.\d)?)b\sactive")
_BESIDE = 40
_FEW = 2
_MOST_WORDS = 8
_BILLION = {"b": 1e9, "m": 1e6, "t": 1e12}
_SMALLEST, _LARGEST = 5e6, 5e12  # parameters: "2M" is no model, nor is an i9-9900T
_SAME_SIZE = 0.015
_EXPERTS = re.compile(r"moe\b|\bmixture|\bexperts?\b")
_OF_TOKENS = re.compile(r"\s?(?:tokens|context|rows)")
_GLUED = re.compile(r"[a-z][\w.\-]{0,80}[-_:]$")


class ModelSaid(NamedTuple):
    """A model as a text has it; several where the words leave open which."""

    label: str
    models: tuple[WellKnown, ...]  # Empty where the catalog has none of that size
    parameters: float
    active: float
    start: int
    end: int
    named: bool = False  # Whether the words name a model or a family, and not a size alone
    stranger: bool = False
    """Whether it has a name that the catalog does not know: then it may have unmentioned experts."""


def models_said(text: str) -> list[ModelSaid]:
    """Every model of a plain text, in order."""
    words = list(_WORD.finditer(re.sub(r"(\d) ?billion\b", r"\1b       ", text)))
    found: list[ModelSaid] = []
    for at, word in enumerate(words):
        if found and word.start() < found[-1].end:
            continue
        if said := _model_named_at(text, words, at) or _model_of_size(text, word, another=bool(found)):
            found.append(said)
    return found


def _model_named_at(text: str, words: list[re.Match[str]], at: int) -> ModelSaid | None:
    """The longest name that begins here; else a family whose size follows."""
    families, stems_by_key = _known_names()
    if _family(words[at][0]) not in families:
        return None
    for end in range(min(len(words), at + _MOST_WORDS), at, -1):
        window = words[at:end]
        if _BREAK.search(text[window[0].start() : window[-1].end()]):
            continue
        if stems := stems_by_key.get(_key(w[0] for w in window)):
            return _model_said(text, window, [model_at(stem) for stem in sorted(stems)])
        if _SIZE.fullmatch(window[-1][0]) and len(window) > 1:
            models = _models_by_words(" ".join(w[0] for w in window if w[0] not in _NOISE))
            family = [m for m in models if m.name.lower().startswith(_family(words[at][0]))]
            if models:
                return _model_said(text, window, family or models)
    return None


def _model_of_size(text: str, word: re.Match[str], *, another: bool) -> ModelSaid | None:
    """A size alone: what the catalog has of it, else a model of so many parameters."""
    match = _SIZE.fullmatch(word[0])
    if not match or (another and _COUNTED.match(text, word.end())) or _OF_TOKENS.match(text, word.end()):
        return None
    total = float(match[2]) * _BILLION[match[3]] * int(match[1] or 1)
    if not _SMALLEST <= total <= _LARGEST:
        return None
    beside = _ACTIVE.match(text[word.end() : word.end() + _BESIDE])  # `30B-A3B` or `30B (3B active)`
    active = float(beside[1] or beside[2]) * 1e9 if beside else 0.0
    if glued := _GLUED.search(text[: word.start()]):
        label = text[glued.start() : word.end()]
        return ModelSaid(label, (), total, active or total, *word.span(), named=True, stranger=not active)
    # Dense models, unless experts are mentioned or there is nothing else
    has_experts = bool(active or match[1] or _EXPERTS.search(text))
    models = [m for m in _models_by_words(word[0]) if bool(m.shape.experts) == has_experts]
    models = models or [m for m in _models_by_words("") if abs(m.parameters / total - 1) < _SAME_SIZE]
    chosen = _extremes([m for m in models if has_experts or _is_plain(m.shape)] or models)
    return ModelSaid(word[0].upper(), tuple(chosen), total, active or total, *word.span())


def _model_said(text: str, window: list[re.Match[str]], models: Sequence[WellKnown]) -> ModelSaid:
    start, end = window[0].start(), window[-1].end()
    chosen = _extremes(models)
    label = chosen[0].name if len(models) == 1 else text[start:end]
    return ModelSaid(label, tuple(chosen), chosen[0].parameters, 0.0, start, end, named=True)


def _is_plain(shape: Shape) -> bool:
    """Whether all layers attend to all tokens, and all weights are read for each."""
    others = (shape.experts, shape.state, shape.inner, shape.linear_length, shape.head_size, shape.convolution)
    return not any(others) and not shape.window


def _extremes(models: Sequence[WellKnown]) -> list[WellKnown]:
    """The usual one first; then those with the fewest and most parameters, and with the smallest and largest cache."""
    if len(models) <= _FEW:
        return list(models)
    usual = next((m for m in models if m.name.lower().startswith("llama")), models[0])
    by_size, by_cache = sorted(models, key=lambda m: m.parameters), sorted(models, key=lambda m: _cache_size(m.shape))
    chosen = (usual, by_size[0], by_size[-1], by_cache[0], by_cache[-1])
    return list({m.name: m for m in chosen}.values())


def _cache_size(shape: Shape) -> float:
    heads = shape.kv_heads if shape.kv_heads is not None else shape.heads or 0
    number = max(heads) if isinstance(heads, list) else heads
    queries = max(shape.heads) if isinstance(shape.heads, list) else shape.heads or 1
    return shape.layers * number * (shape.key_length or shape.width / max(1, queries))


@lru_cache(maxsize=256)
def _models_by_words(words: str) -> tuple[WellKnown, ...]:
    return tuple(m for m in listed_models(words) if "embedding" not in m.name.lower())


def _family(word: str) -> str:
    return re.sub(r"[^a-z].*", "", word)


def _key(words: Iterable[str]) -> str:
    return "".join(word.replace(".", "") for word in words if word not in _NOISE)


@cache
def _known_names() -> tuple[set[str], dict[str, set[str]]]:
    """Every family, and the models by the key of each of their names."""
    families: set[str] = set()
    stems: dict[str, set[str]] = {}
    for stem, names in all_names().items():
        for name in (stem, *names):
            words = _WORD.findall(name.lower()) or [""]
            families.add(_family(words[0]))
            stems.setdefault(_key(words), set()).add(stem)
    stems.pop("", None)
    return families - {""}, stems


_WIDE = {
    "fp16": "F16", "f16": "F16", "bf16": "BF16", "fp32": "F32", "f32": "F32", "16-bit": "BF16", "16 bit": "BF16",
    "half precision": "F16", "full precision": "BF16", "unquantized": "BF16", "unquantised": "BF16",
}  # fmt: skip
_SCHEMES = {
    "awq": 4.0, "gptq": 4.0, "nf4": 4.0, "int4": 4.0, "w4a16": 4.0, "nvfp4": 4.5, "fp4": 4.0, "mxfp4": 4.25, "fp8": 8.0,
    "int8": 8.0, "w8a8": 8.0, "w8a16": 8.0, "int-4": 4.0, "int-8": 8.0,
}  # fmt: skip
"""The fewest bits that a matrix takes in each."""
_GGUF = r"(?:i?q[1-8]_(?:k_(?:xs|xl|s|m|l)|k|xxs|xs|nl|0|1|s|m)|tq[12]_0|mxfp4_moe)"
_PATTERN = re.compile(
    rf"(?<![\w.])(?:(?P<mix>{_GGUF})|(?P<digit>i?q[1-8])(?![\w])"
    r"|(?P<bits>\d(?:\.\d{1,2})?)[ -]?(?:bits?|bpw)\b(?! per)"
    rf"|(?P<wide>{'|'.join(_WIDE)})\b|(?P<scheme>{'|'.join(_SCHEMES)})\b)"
)
_CACHE_BEFORE = re.compile(r"(?:kv|cache|ctk|ctv)[\s\-_a-z]{0,12}[(=:]?\s?$")
_CACHE_AFTER = re.compile(r"[\s\-_]?\)?(?:quantized |quantised )?(?:kv|k/v|cache|keys)")
USUAL = "Q4_K_M"


class QuantSaid(NamedTuple):
    """A quant as a text has it: mixes, the usual first, or bits alone."""

    label: str
    mixes: tuple[str, ...]
    bits: float  # Of a scheme that is no mix; else 0
    start: int
    end: int
    of_cache: bool = False


def quants_said(text: str) -> list[QuantSaid]:
    """Every quant of a plain text, in order."""
    found = []
    for match in _PATTERN.finditer(text):
        start, end = match.span()
        label, bits, named = match[0].upper(), 0.0, tuple[str, ...]()
        if match["wide"] or (match["mix"] and label in mixes()):
            label = _WIDE.get(match[0], label)
            named = (label,)
        elif match["scheme"]:
            bits = _SCHEMES[match[0]]
        elif match["bits"]:
            label, bits = match[0], float(match["bits"])
            named = _mixes_of_digit(str(int(bits))) if bits.is_integer() else ()
        else:
            named = _mixes_of_digit(next(letter for letter in label if letter.isdigit()))
        of_cache = _CACHE_BEFORE.search(text[max(0, start - 20) : start]) or _CACHE_AFTER.match(text, end)
        found.append(QuantSaid(label, named, bits, start, end, bool(of_cache)))
    return found


@cache
def _mixes_of_digit(digit: str) -> tuple[str, ...]:
    """The mixes of that many bits: the usual one, the smallest and the largest."""
    named = [m for m in mixes().values() if re.fullmatch(rf"I?Q{digit}_\w+", m.name)]
    found = sorted(named, key=lambda m: m.bits_per_weight)
    if not found:
        return ("BF16",) if digit == "16" else ()
    names = [mix.name for mix in found]
    usual = next((name for kind in ("K_M", "K", "0") if (name := f"Q{digit}_{kind}") in names), names[0])
    return tuple(dict.fromkeys((usual, names[0], names[-1])))


_MATRIX = 2
_LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight")
_SMALLER = ("Q3_K_M", "IQ2_M", "IQ1_S")
_LARGER = ("Q4_K_M", "BF16", "Q8_0", "Q6_K", "Q5_K_M", "Q3_K_M", "IQ2_M")
_PUBLISHED_BITS = {"MXFP4": 4.25, "FP8": 8.0}
_SMALLER_THAN_NAMED = 0.97  # a "70B" has 68 to 72
_CACHE_TYPES = {"F32": 4.0, "F16": 2.0, "BF16": 2.0, "Q8_0": 34 / 32, "Q5_1": 24 / 32, "Q5_0": 22 / 32, "Q4_1": 20 / 32,
                "Q4_0": 18 / 32, "FP8": 1.0, "INT8": 1.0, "Q8": 34 / 32, "Q4": 18 / 32, "INT4": 0.5}  # fmt: skip
"""Bytes of an element of the cache."""


class Reading(NamedTuple):
    """A model in a quant; what is counted is a file's tensors, or parameters times bits where there is only a size."""

    model: str
    quant: str
    weights_bytes: float
    table_bytes: float  # Of the tables that a token only looks one row up in
    expert_bytes: float
    expert_share: float
    output_bytes: float
    layers: int
    parameters: float
    active: float
    shaped: bool = False  # Whether its tensors are known, and not its size alone
    assumed: bool = False  # Whether the quant is one that the text does not name

    @property
    def name(self) -> str:
        """The model with its quant."""
        return f"{self.model} {self.quant}".strip()

    @property
    def read_bytes(self) -> float:
        """What one token reads of the weights."""
        always = self.weights_bytes - self.table_bytes - self.expert_bytes  # whichever experts it takes
        return always + self.expert_bytes * self.expert_share

    @property
    def layer_bytes(self) -> float:
        """Of one repeating layer, on average."""
        return (self.weights_bytes - self.table_bytes - self.output_bytes) / max(1, self.layers)

    def cache_bytes(self, context: int, kind: str = "F16") -> float | None:
        """Keys and values of so many tokens; None where the shape is unknown."""
        return _cache_of_f16(self.model, context) * cache_share(kind) if self.shaped else None


def cache_share(kind: str) -> float:
    """The size of a cache of that type, in those of F16."""
    return _CACHE_TYPES.get(kind.upper(), 2.0) / 2.0


@lru_cache(maxsize=512)
def _cache_of_f16(name: str, context: int) -> float:
    hyper = Hyper(made_up(_well_known(name), "F16"))
    return float(sum(c.bytes for c in layer_caches(hyper, Settings(context=max(1, context), micro_batch=1))))


@cache
def _well_known(name: str) -> WellKnown:
    return next(model_at(stem) for stem, names in all_names().items() if names[0] == name)


def readings(model: ModelSaid, quant: QuantSaid | None, *, any_quant: bool = False) -> list[Reading]:
    """Every reading of what was said, the usual first; with no quant, the usual one and then smaller ones.

    With `any_quant` a quant that is not named may as well be a larger one, and none of them is a guess.
    """
    assumed, found = quant is None and not any_quant, list[Reading]()
    # How the weights may be stored: a mix, in which a scheme packs the matrices in so many bits, and its name
    if quant is None:
        stored = [(mix, 0.0, mix) for mix in (_LARGER if any_quant else (USUAL, *_SMALLER))]
    else:
        stored = [(mix, 0.0, mix) for mix in quant.mixes] or [("BF16", quant.bits, quant.label)]
    for mix, bits, label in stored:
        if not model.models:
            # From the number of parameters alone, which a name may round up
            weight = (bits or mixes()[mix].bits_per_weight) / 8 * _SMALLER_THAN_NAMED
            total, active = model.parameters * weight, model.active * weight
            experts = total - active if active < total else 0.0
            found.append(Reading(model.label, label, total, 0.0, experts, 0.0, 0.0, 0, model.parameters, model.active))
        for known in model.models:
            published = known.published.upper().replace(" BLOCK", "")
            if assumed and mix == USUAL and published in _PUBLISHED_BITS:
                found.append(_exact_reading(known.name, "BF16", _PUBLISHED_BITS[published], published))
            else:
                found.append(_exact_reading(known.name, mix, bits, label))
    return [reading._replace(assumed=assumed) for reading in found]


@lru_cache(maxsize=256)
def _exact_reading(name: str, mix: str, bits: float, label: str) -> Reading:
    plan = made_up(_well_known(name), mix)
    hyper, names = Hyper(plan), plan.by_name
    guessing = {f"blk.{n}." for n in range(hyper.layers, hyper.all_layers)}
    tensors: list[tuple[Tensor, float]] = []
    for tensor in plan.tensors:
        if not tensor.name.startswith(tuple(guessing)):
            # Schemes pack matrices, but neither the tables nor the output
            packed = bits and len(tensor.shape) >= _MATRIX and tensor.name not in (*_LOOKED_UP, "output.weight")
            tensors.append((tensor, math.prod(tensor.shape) * bits / 8 if packed else tensor.bytes))
    tied = "output.weight" not in names
    looked_up = [name for name in _LOOKED_UP if not (tied and name == _LOOKED_UP[0])]
    experts = sum(size for t, size in tensors if "_exps." in t.name)
    elements = sum(math.prod(t.shape) for t, _ in tensors if "_exps." in t.name)
    share = max(hyper.experts_used) / hyper.experts if hyper.experts else 0.0
    everything = sum(math.prod(t.shape) for t, _ in tensors)
    looked = sum(math.prod(t.shape) for t, _ in tensors if t.name in looked_up)
    output = _LOOKED_UP[0] if tied else "output.weight"
    return Reading(
        model=name,
        quant=label,
        weights_bytes=sum(size for _, size in tensors),
        table_bytes=sum(size for t, size in tensors if t.name in looked_up),
        expert_bytes=experts,
        expert_share=share,
        output_bytes=sum(size for t, size in tensors if t.name == output),
        layers=hyper.layers,
        parameters=_well_known(name).parameters,
        active=everything - looked - elements * (1 - share),
        shaped=True,
    )
