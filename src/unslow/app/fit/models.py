"""The model that a user means: a file, a URL, a stored model, or one that only the catalogue knows."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from unslow.app.models import find_model
from unslow.catalog import model_names
from unslow.catalog.quants import quants
from unslow.facts.blueprint import Blueprint, Tensor
from unslow.facts.errors import UserError
from unslow.facts.stored_model import StoredModel
from unslow.look.models.gguf import Gguf, blueprint, model_facts, read_gguf, read_gguf_pipe, read_gguf_url, shortfall
from unslow.look.system import LookError, System
from unslow.think.blueprints.made_up import made_up
from unslow.think.quantise import types_of

DEFAULT_QUANT = "Q4_K_M"


class Found(NamedTuple):
    """A model down to its tensors, and where that is known from."""

    name: str
    blueprint: Blueprint
    quant: str
    source: str
    parameters: int
    notes: tuple[str, ...] = ()


def find_gguf_model(system: System, word: str, quant: str | None) -> Found:
    """A model as llama.cpp would load it; UserError where the word means none or several."""
    if word == "-":
        return _read(_looked(lambda: read_gguf_pipe(system)), "standard input")
    if word.startswith(("http://", "https://")):
        return _read(_looked(lambda: read_gguf_url(system, word)), word)
    path = Path(word).expanduser()
    if path.is_file() and path.suffix != ".safetensors":
        return _requantised(_read(_looked(lambda: read_gguf(system, str(path))), str(path)), quant)
    stored = find_model(system, word)
    if stored is None:
        return _from_catalogue(word, quant)
    return _requantised(_stored(system, stored), quant)


def _looked(look: Callable[[], Gguf]) -> Gguf:
    try:
        return look()
    except LookError as error:
        raise UserError(
            error.why, error.how_to_get or "give a GGUF file, or a name that `unslow models` lists"
        ) from error


def _read(gguf: Gguf, source: str) -> Found:
    """A model from its header."""
    facts = model_facts(gguf, source)
    plan = blueprint(gguf)
    name = facts.name.value_or(Path(source).stem)
    cut = shortfall(gguf)
    notes = (f"{cut}; the header is whole, so memory is known",) if cut else ()
    parameters = facts.parameters.value_or(0)
    return Found(name, plan, facts.quant.value_or("?"), source, parameters, notes)


def _stored(system: System, model: StoredModel) -> Found:
    if model.format != "gguf":
        hint = "try --runtime transformers or --runtime vllm, or the name of the model with --quant"
        raise UserError(f"{model.name} is in safetensors, which llama.cpp does not load", hint)
    found = _read(_looked(lambda: read_gguf(system, model.path)), model.path)
    extras = [f"{len(model.projectors)} projector(s)"] * bool(model.projectors)
    extras += [f"{len(model.adapters)} adapter(s)"] * bool(model.adapters)
    notes = (f"without its {' and '.join(extras)}: they need memory of their own",) if extras else ()
    return found._replace(name=model.name, notes=(*found.notes, *notes))


def _from_catalogue(word: str, quant: str | None) -> Found:
    model = model_names.find_model(word)
    mix = quant or DEFAULT_QUANT
    note = f"no file was read: tensors by {model.source}, types as llama-quantize picks them"
    return Found(model.name, made_up(model, mix), mix.upper(), "catalogue", model.parameters, (note,))


def _requantised(found: Found, quant: str | None) -> Found:
    """The same model in another quant, where one is asked for."""
    if quant is None or quant.upper() == found.quant:
        return found
    note = f"the file is {found.quant}; this is what it would be as {quant.upper()}"
    return found._replace(blueprint=as_quant(found.blueprint, quant), quant=quant.upper(), notes=(*found.notes, note))


def as_quant(plan: Blueprint, quant: str) -> Blueprint:
    """A model with the types that llama-quantize would give its tensors."""
    named = [(t.name, t.shape) for t in plan.tensors]
    types = types_of(plan.architecture, plan.metadata, named, quant)
    tensors = [_typed(name, shape, kind) for (name, shape), kind in zip(named, types, strict=True)]
    return Blueprint(
        architecture=plan.architecture, metadata=plan.metadata, tensors=tensors, vocabulary=plan.vocabulary
    )


def _typed(name: str, shape: tuple[int, ...], kind: str) -> Tensor:
    row, *others = shape
    return Tensor(name, kind, shape, quants()[kind].bytes_of(row) * math.prod(others))
