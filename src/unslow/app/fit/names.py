"""The well-known model that a user names, and the quant that the name carries."""

from typing import NamedTuple

from unslow.app.resolve import exists, expanded
from unslow.catalog import model_names
from unslow.catalog.models import WellKnown
from unslow.catalog.quant_in_name import split_quant
from unslow.facts.errors import UserError
from unslow.look.system import System


class Meant(NamedTuple):
    """A model by name."""

    model: WellKnown
    quant: str
    """As the name has it; empty where it has none."""
    stands_for: str = ""
    """The name of another model of the same shape, where that one was named."""


def find_well_known(system: System, word: str) -> Meant:
    """The model that a name means where no file is here; UserError where it means none or several."""
    try:
        model = model_names.find_model(word)
    except UserError as error:
        if exists(system, expanded(word)):
            hint = "models end in .gguf or .safetensors; `unslow models` lists what is here"
            raise UserError(f"{word}: no model is in that folder", hint) from error
        raise
    _, quant = split_quant(word.rsplit("/", 1)[-1])
    return Meant(model, quant, model_names.same_shape_as(word, model))


def overruled(meant: Meant, asked: str | None, used: str, carried: str) -> tuple[str, ...]:
    """A note where the flag and the name tell of different quants."""
    if not asked or not meant.quant or used == carried:
        return ()
    return (f"the name tells of {meant.quant}; --quant {used} is what counts",)


def same_shape_note(meant: Meant) -> tuple[str, ...]:
    """That another model of the same shape was computed."""
    if not meant.stands_for:
        return ()
    return (f"{meant.stands_for} has the shape of {meant.model.name}: computed with that",)


def projector_note(model: WellKnown) -> tuple[str, ...]:
    """What of a model is not counted."""
    if not model.projector:
        return ()
    return (f"its projector (mmproj), which reads {model.projector}, is not counted: it needs memory of its own",)
