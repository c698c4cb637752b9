"""The model that a user means, as vLLM and Transformers load it: a folder of safetensors, or a well-known name."""

from typing import NamedTuple

from unslow.app.fit.addresses import is_address, meant_by
from unslow.app.fit.chosen_scheme import chosen_scheme, named_scheme
from unslow.app.fit.names import Meant, find_well_known, projector_note, same_shape_note
from unslow.app.fit.titles import one_line
from unslow.app.models import find_model
from unslow.app.resolve import expanded
from unslow.catalog.model_names import find_model as find_known
from unslow.catalog.quant_in_name import split_quant
from unslow.catalog.weight_parts import Part, packed, parts_of_shape, parts_of_tensors, plainly, total_bytes
from unslow.facts.errors import UserError
from unslow.facts.hf_shape import HfShape
from unslow.facts.stored_model import StoredModel
from unslow.look.models.hf_config import Config, hf_shape, named_quant, shape_of_config
from unslow.look.models.safetensors import Checkpoint, read_checkpoint, read_config_alone
from unslow.look.system import LookError, System
from unslow.think.blueprints.made_up import made_up
from unslow.think.memory.blueprint_shape import shape_of_blueprint


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
    stands_for: str = ""
    """The model that was named, where this one was computed because it has the same shape."""
    checkpoint: str = "MODEL"
    """What a runtime is told to load: a folder, or a word that stands for a model in this format."""

    def loaded_by_vllm(self) -> "FoundShape":
        """As vLLM loads it by itself: float32 as 16 bits (`--dtype auto`)."""
        if self.dtype_bytes != _WIDE or self.packing:
            return self
        return self._replace(parts=[part._replace(bytes=part.bytes // 2) for part in self.parts], dtype_bytes=2)


_WIDE = 4
"""Bytes of a number in float32."""


def find_shape(system: System, word: str, quant: str | None, runtime: str = "vllm") -> FoundShape:
    """The model; UserError where the word means none, or a file or a format of another runtime."""
    word = meant_by(word)
    if word == "-" or is_address(word):
        hint = "give a folder with safetensors, or the name of the model"
        raise UserError(f"{word}: only GGUF files are read so, and this runtime's memory for those is not known", hint)
    if config := read_config_alone(system, expanded(word)):
        return _from_config(expanded(word), config, quant, runtime)
    stored = find_model(system, word)
    if stored is None:
        return _from_catalogue(find_well_known(system, word), quant, runtime)
    if stored.format == "gguf":
        hint = "give a folder with safetensors, or the name of the model"
        raise UserError(f"{stored.name} is a GGUF file; this runtime's memory for those is not known", hint)
    return _from_files(system, stored)


def _from_config(folder: str, config: Config, quant: str | None, runtime: str) -> FoundShape:
    """A model whose weights are counted from the numbers of its config, in the type that it names."""
    shape = _shape_of(folder, config)
    own = named_scheme(named_quant(config), runtime)
    chosen = named_scheme(quant, runtime) if quant else own
    parts = parts_of_shape(shape, packed(chosen.scheme) if chosen.scheme else plainly(chosen.plain_bytes))
    return FoundShape(
        name=one_line(folder.rstrip("/").rpartition("/")[2]),
        architecture=str(config.get("model_type", "")),
        shape=shape,
        parts=parts,
        quant=chosen.name,
        packing=chosen.scheme.packing.name if chosen.scheme else "",
        source=folder,
        parameters=total_bytes(parts_of_shape(shape, plainly(1))),
        dtype_bytes=chosen.plain_bytes,
        checkpoint=folder if chosen.scheme == own.scheme else f"MODEL-{quant}",
        notes=("the folder has no safetensors: the sizes of its weights are counted from its config.json",),
    )


def _shape_of(name: str, config: Config) -> HfShape:
    try:
        shape = shape_of_config(hf_shape(config))
    except LookError as error:
        raise UserError(error.why, error.how_to_get) from error
    if not shape.layers or not shape.width or not shape.heads:
        raise UserError(f"the config of {name} does not tell its layers and heads", "is it a language model?")
    return shape


def shape_by_name(word: str, quant: str) -> FoundShape | None:
    """A well-known model by a name alone, where its machine is not this one; None where nobody knows it."""
    try:
        model = find_known(word)
        _, carried = split_quant(word.rsplit("/", 1)[-1])
        return _from_catalogue(Meant(model, carried), None if carried else quant or None)
    except UserError:
        return None


def _from_files(system: System, stored: StoredModel) -> FoundShape:
    try:
        checkpoint = read_checkpoint(system, stored.path)
    except LookError as error:
        raise UserError(error.why, error.how_to_get or "give a folder with config.json and safetensors") from error
    if not checkpoint.config:
        raise UserError(f"{stored.name} has no config.json", "its shape stands there; give the folder that has it")
    shape = _shape_of(stored.name, checkpoint.config)
    return FoundShape(
        name=one_line(stored.name),
        architecture=stored.architecture or "",
        shape=shape,
        parts=parts_of_tensors(checkpoint.tensors, shape.layers),
        quant=stored.quant or "?",
        packing=checkpoint.quantization.method if checkpoint.quantization else "",
        source=stored.path,
        parameters=stored.parameters or 0,
        dtype_bytes=_WIDE if _main_type(checkpoint) == "F32" else 2,
        checkpoint=stored.path,
    )


def _main_type(checkpoint: Checkpoint) -> str:
    return next(iter(checkpoint.type_bytes), "")


def _from_catalogue(meant: Meant, asked: str | None, runtime: str = "vllm") -> FoundShape:
    model = meant.model
    chosen, why = chosen_scheme(meant, asked, runtime)
    published = named_scheme(model.published or "BF16", runtime)
    shape = shape_of_blueprint(made_up(model, "F16"))
    return FoundShape(
        name=model.name,
        architecture=model.architecture,
        shape=shape,
        parts=parts_of_shape(shape, packed(chosen.scheme) if chosen.scheme else plainly(chosen.plain_bytes)),
        quant=chosen.name,
        packing=chosen.scheme.packing.name if chosen.scheme else "",
        source="catalogue",
        parameters=model.parameters,
        dtype_bytes=chosen.plain_bytes,
        stands_for=meant.stands_for,
        checkpoint="MODEL" if chosen.scheme == published.scheme else f"MODEL-{asked or meant.quant}",
        notes=(*same_shape_note(meant), *why, f"no file was read: numbers by {model.source}", *projector_note(model)),
    )
