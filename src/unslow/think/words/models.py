"""The model that a text tells of: its name, its quant, whether it has experts, how large it is."""

import re
from collections.abc import Sequence
from typing import Any

from unslow.facts.model import Model
from unslow.facts.values import NOT_LOOKED, Fact, estimated, told
from unslow.think.claims.models_in_text import ModelSaid, models_said
from unslow.think.claims.quants_in_text import QuantSaid, quants_said
from unslow.think.claims.readings import readings
from unslow.think.words.lines import Line

_LETTERS = re.compile(r"[^a-z0-9]")
_TUNED = re.compile(r"\b(?:instruct|chat|it|base|hf|gguf|text)\b|latest|.*/")
_ALIKE = 1.3
"""Readings of one name that differ by more than this leave the size open."""
_LABEL = re.compile(r"^models?\b[^:]{0,12}:\s*")
_NAME = re.compile(r"[\w.:/+-]{3,80}")
_ACTIVE = re.compile(r"\b(\d{1,4}(?:\.\d)?)b-a(\d{1,3}(?:\.\d)?)b\b")
_GPU_NAME = re.compile(r"\b(?:radeon|geforce|quadro|vega|amd|ryzen \w{1,8})\b[\w() ]{0,16}?\b(\d{3}m)\b")
_USUAL = {"Ollama": "q4_k_m", "LM Studio": "q4_k_m"}
"""The quant that these give where nobody names one."""
_MOE = re.compile(r"\bmoe\b|\bmixture of experts\b|\bexperts\b")


def model_told(lines: Sequence[Line], runtime: str = "") -> Model:
    """The model of the line that is labelled so, else of the first that names one."""
    lines = [line._replace(text=_GPU_NAME.sub(_without_name, line.text)) for line in lines]
    ordered = [*(line for line in lines if _LABEL.match(line.text)), *lines]
    said, quant = _first_quant(ordered) or _usual_quant(runtime), _quant(ordered)
    for line in ordered:
        facts = _facts(line)
        if facts:
            return Model(**facts, quant=quant, **_weights(line, said))
    return Model(quant=quant)


def _without_name(found: re.Match[str]) -> str:
    """A GPU's name of three digits and an M, which is no model of so many million parameters."""
    return found[0][: found.start(1) - found.start()] + "x" * len(found[1])


def _usual_quant(runtime: str) -> QuantSaid | None:
    return next(iter(quants_said(_USUAL.get(runtime, ""))), None)


def _weights(line: Line, quant: QuantSaid | None) -> dict[str, Any]:
    """The size of the file, reckoned from the model and a quant that are both named."""
    said = models_said(line.text)
    if not said or quant is None:
        return {}
    sizes = [reading.weights_bytes for reading in readings(said[0], quant)]
    known = sizes and max(sizes) < _ALIKE * min(sizes)
    return {"weights_bytes": estimated(int(sizes[0]), f"{line.where}: the model in this quant")} if known else {}


def _first_quant(lines: Sequence[Line]) -> QuantSaid | None:
    return next((q for line in lines for q in quants_said(line.text) if not q.of_cache), None)


def _facts(line: Line) -> dict[str, Any]:
    label = _LABEL.match(line.text)
    said = models_said(line.text)
    if not said and not label:
        return {}
    rest = line.original[label.end() :] if label else line.original
    name = _NAME.search(rest)
    called = _as_written(line, said[0]) if said else name[0] if name else rest[:80]
    facts: dict[str, Any] = {"name": told(called, line.where)}
    if said and said[0].parameters:
        facts["parameters"] = told(int(said[0].parameters), line.where)
    if said and len({m.shape.layers for m in said[0].models}) == 1:
        facts["layers"] = told(int(said[0].models[0].shape.layers), line.where)
    experts = _experts(line.text, said[0].models[0].shape.experts if said and len(said[0].models) == 1 else None)
    return facts | ({"experts": told(experts, line.where)} if experts is not None else {})


def _as_written(line: Line, said: ModelSaid) -> str:
    """The catalogue's name where it is the same but for its spelling, else the name as it was written."""
    written = line.original[said.start : said.end].strip(" ,;:()")
    known, words = _letters(said.label), _letters(_TUNED.sub("", written.lower()))
    return said.label if known.startswith(words) or known == _letters(written) else written


def _letters(text: str) -> str:
    return _LETTERS.sub("", text.lower())


def _experts(text: str, known: int | None) -> int | None:
    """How many, where the catalogue knows; 1 stands for "some", since the name only says that there are."""
    if known is not None:
        return int(known)
    return 1 if _ACTIVE.search(text) or _MOE.search(text) else None


def _quant(lines: Sequence[Line]) -> Fact[str]:
    where = next((line.where for line in lines if any(not q.of_cache for q in quants_said(line.text))), "")
    first = _first_quant(lines)
    return told(first.label, where) if first else NOT_LOOKED
