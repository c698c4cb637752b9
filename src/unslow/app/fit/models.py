"""The model that a user means: a file, a URL, a stored model, or one that only the catalogue knows."""

import math
from collections.abc import Callable
from typing import NamedTuple

from unslow.app.fit.addresses import is_address, meant_by
from unslow.app.fit.chosen_mix import chosen_mix, mix_named
from unslow.app.fit.names import Meant, find_well_known, projector_note
from unslow.app.fit.titles import one_line, title
from unslow.app.models import find_model
from unslow.app.obstacles import obstacle
from unslow.app.resolve import exists, expanded
from unslow.catalog.quants import quants
from unslow.facts.blueprint import Blueprint, Tensor
from unslow.facts.errors import UserError
from unslow.facts.stored_model import StoredModel
from unslow.look.models.gguf import Gguf, blueprint, model_facts, read_gguf, read_gguf_pipe, read_gguf_url
from unslow.look.system import LookError, System
from unslow.show._units import size
from unslow.think.blueprints.made_up import made_up
from unslow.think.quantise import types_of

_FILE_HINT = "give a GGUF file, or a name that `unslow models` lists"
_WEB_HINT = "is the address right, and can it be reached from here? A file that is here needs no address"


class Found(NamedTuple):
    """A model down to its tensors, and where that is known from."""

    name: str
    blueprint: Blueprint
    quant: str
    source: str
    parameters: int
    notes: tuple[str, ...] = ()
    incomplete: str = ""
    """Why it would not load as it is; empty for a whole file, and for a header that is a header on purpose."""
    requantised: bool = False
    """Whether it is in another quant than the file that it was read from."""
    tool: str = ""
    """Whose store it is in, which then has the name for it; empty of a file by its path."""


def find_gguf_model(system: System, word: str, quant: str | None) -> Found:
    """A model as llama.cpp would load it; UserError where the word means none or several."""
    word = meant_by(word)
    if word == "-":
        found: Found | None = _read(_looked(lambda: read_gguf_pipe(system), _FILE_HINT), "standard input")
    elif is_address(word):
        found = _read(_looked(lambda: read_gguf_url(system, word), _WEB_HINT), word)
    else:
        found = _on_this_machine(system, word)
    return _requantised(found, quant) if found else _from_catalogue(find_well_known(system, word), quant)


def _on_this_machine(system: System, word: str) -> Found | None:
    """A file by its path, or what a tool has stored under that name."""
    path = expanded(word)
    if "\0" not in word and _is_readable_file(system, path) and not path.endswith(".safetensors"):
        return _read(_looked(lambda: read_gguf(system, path), _FILE_HINT), path)
    tool, _, name = word.partition(":")
    in_ollama = name if tool.lower() == "ollama" else ""  # ollama:NAME, as other programs write it
    stored = find_model(system, in_ollama or word)
    if in_ollama and stored is None:
        raise UserError(f"Ollama has no model {in_ollama} on this machine", _FILE_HINT)
    return _stored(system, stored) if stored else None


def _is_readable_file(system: System, path: str) -> bool:
    """Whether there is a file to read; what stands in the way of reading one is told where models are looked for."""
    try:
        system.list_dir(path)
    except LookError:
        return exists(system, path) and not obstacle(system, path)
    return False


def _looked(look: Callable[[], Gguf], hint: str) -> Gguf:
    try:
        return look()
    except LookError as error:
        raise UserError(error.why, error.how_to_get or hint) from error


def _read(gguf: Gguf, source: str) -> Found:
    """A model from its header."""
    facts = model_facts(gguf, source)
    incomplete, notes = _shortfall(gguf)
    return Found(
        name=title(facts.name.value_or(""), source),
        blueprint=blueprint(gguf),
        quant=facts.quant.value_or("?"),
        source=source,
        parameters=facts.parameters.value_or(0),
        notes=notes,
        incomplete=incomplete,
    )


def _shortfall(gguf: Gguf) -> tuple[str, tuple[str, ...]]:
    """Why a file would not load, and a note; a file that ends before its first tensor is a header on purpose."""
    if not gguf.missing_bytes:
        return "", ()
    if gguf.missing_bytes >= gguf.tensors.bytes:
        return "", ("only the header is here, which tells all that memory depends on",)
    why = f"{size(max(gguf.missing_bytes, 2**20))} are missing: the download is not whole, it will not load"
    return why, (why,)


def _stored(system: System, model: StoredModel) -> Found:
    if model.format != "gguf":
        hint = "try --runtime transformers or --runtime vllm, or the name of the model with --quant"
        raise UserError(f"{model.name} is in safetensors, which llama.cpp does not load", hint)
    found = _read(_looked(lambda: read_gguf(system, model.path), _FILE_HINT), model.path)
    extras = [f"{len(model.projectors)} projector(s)"] * bool(model.projectors)
    extras += [f"{len(model.adapters)} adapter(s)"] * bool(model.adapters)
    notes = (f"without its {' and '.join(extras)}: they need memory of their own",) if extras else ()
    return found._replace(name=one_line(model.name), notes=(*found.notes, *notes), tool=model.tool)


def _from_catalogue(meant: Meant, asked: str | None) -> Found:
    model = meant.model
    mix, why = chosen_mix(meant, asked)
    how = f"no file was read: tensors by {model.source}, types as llama-quantize picks them"
    notes = (*why, how, *projector_note(model))
    return Found(model.name, made_up(model, mix.name), mix.name, "catalogue", model.parameters, notes)


def _requantised(found: Found, quant: str | None) -> Found:
    """The same model in another quant, where one is asked for."""
    mix = mix_named(quant).name if quant else found.quant
    if mix == found.quant:
        return found
    note = f"the file is {found.quant}; this is what it would be as {mix}"
    return found._replace(
        blueprint=as_quant(found.blueprint, mix), quant=mix, notes=(*found.notes, note), requantised=True
    )


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
