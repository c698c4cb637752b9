"""The model that a user means, as vLLM and Transformers load it: a folder of safetensors, or a well-known name."""

from typing import NamedTuple

from unslow.app.models import find_model
from unslow.catalog import model_names
from unslow.catalog.models import WellKnown
from unslow.catalog.scheme_words import find_scheme
from unslow.facts.errors import UserError
from unslow.facts.hf_shape import HfShape
from unslow.facts.stored_model import StoredModel
from unslow.look.models.hf_config import hf_shape
from unslow.look.models.safetensors import Checkpoint, read_checkpoint
from unslow.look.system import LookError, System
from unslow.think.blueprints.made_up import made_up
from unslow.think.memory.blueprint_shape import shape_of_blueprint
from unslow.think.memory.config_shape import shape_of_config
from unslow.think.memory.parts import Part, packed, parts_of_shape, parts_of_tensors, plainly

_PLAIN = {"bf16": 2, "bfloat16": 2, "f16": 2, "fp16": 2, "float16": 2, "f32": 4, "fp32": 4, "float32": 4}


class FoundShape(NamedTuple):
    """A model by its numbers and the sizes of its weights."""

    name: str
    architecture: str
    shape: HfShape
    parts: list[Part]
    quant: str
    packing: str
    source: str
    parameters: int
    dtype_bytes: int = 2
    notes: tuple[str, ...] = ()


def find_shape(system: System, word: str, quant: str | None) -> FoundShape:
    """The model; UserError where the word means none, or a file of another runtime."""
    stored = None if word.startswith(("http://", "https://")) or word == "-" else find_model(system, word)
    if stored is None:
        return _from_catalogue(model_names.find_model(word), quant)
    if stored.format == "gguf":
        hint = "give a folder with safetensors, or the name of the model"
        raise UserError(f"{stored.name} is a GGUF file; this runtime's memory for those is not known", hint)
    return _from_files(system, stored)


def _from_files(system: System, stored: StoredModel) -> FoundShape:
    try:
        checkpoint = read_checkpoint(system, stored.path)
    except LookError as error:
        raise UserError(error.why, error.how_to_get or "give a folder with config.json and safetensors") from error
    if not checkpoint.config:
        raise UserError(f"{stored.name} has no config.json", "its shape stands there; give the folder that has it")
    shape = shape_of_config(hf_shape(checkpoint.config))
    if not shape.layers or not shape.width or not shape.heads:
        raise UserError(f"the config of {stored.name} does not tell its layers and heads", "is it a language model?")
    return FoundShape(
        name=stored.name,
        architecture=stored.architecture or "",
        shape=shape,
        parts=parts_of_tensors(checkpoint.tensors, shape.layers),
        quant=stored.quant or "?",
        packing=checkpoint.quantization.method if checkpoint.quantization else "",
        source=stored.path,
        parameters=stored.parameters or 0,
        dtype_bytes=4 if _main_type(checkpoint) == "F32" else 2,
    )


def _main_type(checkpoint: Checkpoint) -> str:
    return next(iter(checkpoint.type_bytes), "")


def _from_catalogue(model: WellKnown, quant: str | None) -> FoundShape:
    plan = made_up(model, "F16")
    shape = shape_of_blueprint(plan)
    word = (quant or "bf16").lower()
    note = f"no file was read: numbers by {model.source}"
    if word in _PLAIN:
        storage, packing = plainly(_PLAIN[word]), ""
    else:
        found = find_scheme(word)
        storage, packing = packed(found), found.packing.name
    parts = parts_of_shape(shape, storage)
    width = _PLAIN.get(word, 2)
    return FoundShape(
        model.name,
        model.architecture,
        shape,
        parts,
        word.upper(),
        packing,
        "catalogue",
        model.parameters,
        width,
        (note,),
    )
