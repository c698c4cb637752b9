"""The models that a text speaks of: by name, by family and size, or by size alone."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from unslow.catalog.model_names import listed
from unslow.catalog.models import Shape, WellKnown, all_names, model_at

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
    models: tuple[WellKnown, ...]
    """Empty where the catalogue has none of that size."""
    parameters: float
    active: float
    start: int
    end: int
    named: bool = False
    """Whether the words name a model or a family, and not a size alone."""
    stranger: bool = False
    """Whether it has a name that the catalogue does not know: then it may have experts that nobody mentions."""


class _Word(NamedTuple):
    text: str
    start: int
    end: int


def models_said(text: str) -> list[ModelSaid]:
    """Every model of a plain text, in order."""
    words = [_Word(m[0], m.start(), m.end()) for m in _WORD.finditer(re.sub(r"(\d) ?billion\b", r"\1b       ", text))]
    found: list[ModelSaid] = []
    at = 0
    while at < len(words):
        said = _named(text, words, at) or _sized(text, words[at], another=bool(found))
        if said:
            found.append(said)
            at = next((n for n, w in enumerate(words) if w.start >= said.end), len(words))
        else:
            at += 1
    return found


def _named(text: str, words: list[_Word], at: int) -> ModelSaid | None:
    """The longest name that begins here; else a family whose size follows."""
    if _family(words[at].text) not in _families():
        return None
    for end in range(min(len(words), at + _MOST_WORDS), at, -1):
        window = words[at:end]
        if _BREAK.search(text[window[0].start : window[-1].end]):
            continue
        if stems := _by_key().get(_key(w.text for w in window)):
            return _said(text, window, [model_at(stem) for stem in sorted(stems)])
        if _SIZE.fullmatch(window[-1].text) and len(window) > 1:
            models = _listed(" ".join(w.text for w in window if w.text not in _NOISE))
            family = [m for m in models if m.name.lower().startswith(_family(words[at].text))]
            if models:
                return _said(text, window, family or models)
    return None


def _sized(text: str, word: _Word, *, another: bool) -> ModelSaid | None:
    """A size alone: what the catalogue has of it, else a model of so many parameters."""
    match = _SIZE.fullmatch(word.text)
    if not match or (another and _COUNTED.match(text, word.end)) or _OF_TOKENS.match(text, word.end):
        return None
    total = float(match[2]) * _BILLION[match[3]] * int(match[1] or 1)
    if not _SMALLEST <= total <= _LARGEST:
        return None
    active = _active_beside(text, word.end)
    glued = _GLUED.search(text[: word.start])
    if glued:
        label = text[glued.start() : word.end]
        return ModelSaid(label, (), total, active or total, word.start, word.end, named=True, stranger=not active)
    chosen = extremes(_of_size(text, word.text, total, has_experts=bool(active or match[1])))
    return ModelSaid(word.text.upper(), tuple(chosen), total, active or total, word.start, word.end)


def _of_size(text: str, word: str, total: float, *, has_experts: bool) -> list[WellKnown]:
    """What the catalogue has of a size: dense models, unless experts are mentioned or there is nothing else."""
    has_experts = has_experts or bool(_EXPERTS.search(text))
    models = [m for m in _listed(word) if bool(m.shape.experts) == has_experts]
    if not models:
        models = [m for m in _listed("") if abs(m.parameters / total - 1) < _SAME_SIZE]
    return [m for m in models if has_experts or is_plain(m.shape)] or models


def _active_beside(text: str, end: int) -> float:
    """The active parameters of `30B-A3B` or `30B (3B active)`."""
    match = _ACTIVE.match(text[end : end + _BESIDE])
    return float(match[1] or match[2]) * 1e9 if match else 0.0


def _said(text: str, window: list[_Word], models: Sequence[WellKnown]) -> ModelSaid:
    start, end = window[0].start, window[-1].end
    chosen = extremes(models)
    label = chosen[0].name if len(models) == 1 else text[start:end]
    return ModelSaid(label, tuple(chosen), chosen[0].parameters, 0.0, start, end, named=True)


def is_plain(shape: Shape) -> bool:
    """Whether all layers attend to all tokens, and all weights are read for each."""
    others = (shape.experts, shape.state, shape.inner, shape.linear_length, shape.head_size, shape.convolution)
    return not any(others) and not shape.window


def extremes(models: Sequence[WellKnown]) -> list[WellKnown]:
    """The usual one first; then those with the fewest and most parameters, and with the smallest and largest cache."""
    if len(models) <= _FEW:
        return list(models)
    usual = next((m for m in models if m.name.lower().startswith("llama")), models[0])
    by_size, by_cache = sorted(models, key=lambda m: m.parameters), sorted(models, key=lambda m: _cache(m.shape))
    chosen = (usual, by_size[0], by_size[-1], by_cache[0], by_cache[-1])
    return list({m.name: m for m in chosen}.values())


def _cache(shape: Shape) -> float:
    heads = shape.kv_heads if shape.kv_heads is not None else shape.heads or 0
    number = max(heads) if isinstance(heads, list) else heads
    queries = max(shape.heads) if isinstance(shape.heads, list) else shape.heads or 1
    return shape.layers * number * (shape.key_length or shape.width / max(1, queries))


@lru_cache(maxsize=256)
def _listed(words: str) -> tuple[WellKnown, ...]:
    return tuple(m for m in listed(words) if "embedding" not in m.name.lower())


def _family(word: str) -> str:
    return re.sub(r"[^a-z].*", "", word)


def _key(words: Iterable[str]) -> str:
    return "".join(word.replace(".", "") for word in words if word not in _NOISE)


@cache
def _families() -> frozenset[str]:
    return frozenset(family for name in _all() if (family := _family(_words(name)[0])))


@cache
def _by_key() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for stem, names in all_names().items():
        for name in (stem, *names):
            found.setdefault(_key(_words(name)), set()).add(stem)
    found.pop("", None)
    return found


def _all() -> Iterator[str]:
    return (name for stem, names in all_names().items() for name in (stem, *names))


def _words(name: str) -> list[str]:
    return _WORD.findall(name.lower()) or [""]
