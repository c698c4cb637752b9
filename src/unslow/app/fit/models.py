"""The model that a user means: a file, a URL, a stored model, or one that only the catalogue knows."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from unslow.app.fit.addresses import is_address, meant_by
from unslow.app.fit.chosen_mix import chosen_mix, mix_named
from unslow.app.fit.hf_models import FoundShape
from unslow.app.fit.names import Meant, find_well_known, projector_note, same_shape_note
from unslow.app.fit.titles import one_line, title
from unslow.app.models import find_model
from unslow.app.obstacles import obstacle
from unslow.app.resolve import exists, expanded
from unslow.catalog.mixes import EstimatedMix, estimated_mix
from unslow.catalog.quants import quants
from unslow.catalog.weight_parts import total_bytes
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


CATALOGUE = "catalogue"
"""The source of a model of which no file was read."""
OLLAMA = "Ollama"
_TAGGED = re.compile(r"[\w.-]{1,96}(?:/[\w.-]{1,96}){0,3}:[\w.-]{1,96}")
"""A name with a tag, as Ollama has them."""


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
    estimate: EstimatedMix | None = None
    """Where the sizes of its tensors are those of the nearest mix."""
    stands_for: str = ""
    """The model that was named, where this one was computed because it has the same shape."""
    tool: str = ""
    """Whose store it is in, which then has the name for it; empty of a file by its path."""
    settings: Mapping[str, Any] = {}
    """What the store has set for it, such as `num_ctx`."""
    shape: FoundShape | None = None
    """As engines that load safetensors have it; its blueprint then has no tensors."""

    @property
    def weights_bytes(self) -> int:
        """All weights together."""
        return total_bytes(self.shape.parts) if self.shape else sum(t.bytes for t in self.blueprint.tensors)

    def name_in_ollama(self, word: str) -> str:
        """What Ollama calls it: by its store, or by a tag that the user typed; empty where neither tells."""
        if self.requantised:
            return ""
        if self.tool == OLLAMA:
            return self.name
        return word if self.source == CATALOGUE and _TAGGED.fullmatch(word) else ""


def find_gguf_model(system: System, word: str, quant: str | None) -> Found:
    """A model as llama.cpp would load it; UserError where the word means none or several."""
    word = meant_by(word)
    if word == "-":
        found: Found | None = _looked(lambda: _read(read_gguf_pipe(system), "standard input"), _FILE_HINT)
    elif is_address(word):
        found = _looked(lambda: _read(read_gguf_url(system, word), word), _WEB_HINT)
    else:
        found = _on_this_machine(system, word)
    return _requantised(found, quant) if found else _from_catalogue(find_well_known(system, word), quant)


def _on_this_machine(system: System, word: str) -> Found | None:
    """A file by its path, or what a tool has stored under that name."""
    path = expanded(word)
    if "\0" not in word and _is_readable_file(system, path) and not path.endswith(".safetensors"):
        return _looked(lambda: _read(read_gguf(system, path), path), _FILE_HINT)
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


def _looked(look: Callable[[], Found], hint: str) -> Found:
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
    found = _looked(lambda: _read(read_gguf(system, model.path), model.path), _FILE_HINT)
    extras = [f"{len(model.projectors)} projector(s)"] * bool(model.projectors)
    extras += [f"{len(model.adapters)} adapter(s)"] * bool(model.adapters)
    notes = (f"without its {' and '.join(extras)}: they need memory of their own",) if extras else ()
    return found._replace(
        name=one_line(model.name), notes=(*found.notes, *notes), tool=model.tool, settings=model.settings
    )


def _from_catalogue(meant: Meant, asked: str | None) -> Found:
    model = meant.model
    mix, why = chosen_mix(meant, asked)
    how = f"no file was read: tensors by {model.source}, types as llama-quantize picks them"
    notes = (*same_shape_note(meant), *why, how, *projector_note(model))
    found = Found(model.name, made_up(model, mix.name), mix.name, CATALOGUE, model.parameters, notes)
    return _estimated(found._replace(stands_for=meant.stands_for), asked or meant.quant)


def _estimated(found: Found, quant: str) -> Found:
    """The model with sizes by the nearest mix, where the quant is none that follows from its name."""
    estimate = estimated_mix(quant)
    if estimate is None:
        return found
    plan = found.blueprint
    tensors = [t._replace(bytes=int(t.bytes * estimate.factor)) for t in plan.tensors]
    scaled = Blueprint(
        architecture=plan.architecture, metadata=plan.metadata, tensors=tensors, vocabulary=plan.vocabulary
    )
    return found._replace(blueprint=scaled, quant=estimate.word, estimate=estimate, notes=(estimate.note, *found.notes))


def _requantised(found: Found, quant: str | None) -> Found:
    """The same model in another quant, where one is asked for."""
    mix = mix_named(quant).name if quant else found.quant
    if found.quant in (mix, (quant or "").upper()):
        return found
    estimate = estimated_mix(quant or "")
    note = f"the file is {found.quant}; this is what it would be as {estimate.word if estimate else mix}"
    other = found._replace(
        blueprint=as_quant(found.blueprint, mix), quant=mix, notes=(*found.notes, note), requantised=True
    )
    return _estimated(other, quant or "")


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
