"""The model of what runs, down to its tensors: from the snapshot, its file, or the catalogue."""

import msgspec

from unslow.app.fit.chosen_mix import mix_named
from unslow.app.fit.models import Found, find_gguf_model
from unslow.catalog.model_names import find_model
from unslow.catalog.models import WellKnown, well_known
from unslow.facts.blueprint import Blueprint
from unslow.facts.errors import UserError
from unslow.facts.model import Model
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown, reported
from unslow.look.system import System
from unslow.think.adapt.exact import plan_of
from unslow.think.blueprints.made_up import made_up

_HINT = "run it where the model's file is, or name the file: `unslow plan FILE.gguf`"
_LIKE = 0.06
"""Of parameters: a model with so many fewer or more is another one; runtimes round them."""


def seen_model(system: System | None, case: Case) -> Found | Unknown:
    """The model; `system` is the machine that it runs on, None where that is elsewhere."""
    as_built = msgspec.structs.replace(case.runtime, name=reported("llama.cpp", "what it is built on"))
    plan = plan_of(msgspec.structs.replace(case, runtime=as_built))
    if plan is not None:
        return _found(case, plan)
    path = case.model.path.value_or("")
    if system is not None and path:
        try:
            read = find_gguf_model(system, path, None)
            return read._replace(name=case.model.name.value_or(read.name))
        except UserError:
            pass  # it may be another user's; its name may do
    return _from_catalogue(case)


def _found(case: Case, plan: Blueprint) -> Found:
    model, source = case.model, case.model.path.value_or("")
    name = model.name.value_or("") or source.rpartition("/")[2] or "a model"
    return Found(name, plan, model.quant.value_or("?"), source, int(model.parameters.value_or(0)))


def _from_catalogue(case: Case) -> Found | Unknown:
    """By its name and quant, else by its shape, with a note."""
    quant = case.model.quant.value_or("")
    known = _by_name(case.model) or _by_shape(case.model)
    if known is None:
        return Unknown("its tensors are not known, and the catalogue has no model of its name or shape", _HINT)
    try:
        mix = mix_named(quant).name
        plan = made_up(known, mix)
    except UserError:
        return Unknown(f"its quant is not known ({quant or 'nothing tells'})", _HINT)
    note = f"its file was not read: the tensors are those of {known.name} as {mix}, by the catalogue"
    return _found(case, plan)._replace(notes=(note,), parameters=known.parameters, quant=mix)


def _by_name(model: Model) -> WellKnown | None:
    for word in (model.name.value_or(""), model.path.value_or("").rpartition("/")[2].removesuffix(".gguf")):
        try:
            found = find_model(word) if word else None
        except UserError:
            continue
        if found and _is_like(found, model):
            return found
    return None


def _by_shape(model: Model) -> WellKnown | None:
    """A model of the same architecture, layers and width, of as many parameters: its tensors are as large."""
    if not all(isinstance(fact, Known) for fact in (model.architecture, model.layers, model.width, model.parameters)):
        return None
    alike = [
        k for k in well_known().values() if k.architecture == model.architecture.value_or("") and _is_like(k, model)
    ]
    same = [k for k in alike if k.shape.width == model.width.value_or(0)]
    return min(
        same, key=lambda k: (k.shape.context_trained != model.context_trained.value_or(0), len(k.name)), default=None
    )


def _is_like(known: WellKnown, model: Model) -> bool:
    """Whether nothing that was seen of the model says that it is another one."""
    layers, parameters = model.layers.value_or(known.shape.layers), model.parameters.value_or(0)
    near = not parameters or abs(parameters - known.parameters) <= _LIKE * known.parameters
    words = model.vocabulary.value_or(0)
    return layers == known.shape.layers and near and (not words or words == known.shape.vocabulary)
