"""Many changes at once for Ollama: variables of its service, and a Modelfile for a model of their own.

The model at hand stays as it is; whoever wants the new settings asks for the new name.
"""

from collections.abc import Mapping, Sequence

import msgspec

from unslow.facts.knob import Change, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.facts.shell_words import WINDOWS, quoted
from unslow.facts.spelled import Spelled
from unslow.facts.values import Known, reported
from unslow.look.at_hand import NOTHING, AtHand
from unslow.look.runtimes.ollama.names import derived_name
from unslow.look.runtimes.ollama.places import home_of, variables_set
from unslow.look.runtimes.ollama.settings import put_together

_NAMELESS = (
    "write a file Modelfile whose first line is FROM and the model: its name in `ollama list`, or the path of its GGUF"
    " file; no name of it was checked"
)


def spell_all(changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING) -> Spelled:
    """The service's variables first, then the model that has the parameters."""
    put, left = put_together(changes, runtime, at_hand)
    own = at_hand.model.name.value_or("")
    base = put.base or own
    model = _of_model(base, put.parameters, put.base, runtime, own) if base else _of_nameless(put.parameters)
    if at_hand.unit.name and not isinstance(runtime.unit, Known):
        runtime = msgspec.structs.replace(runtime, unit=reported(at_hand.unit.words, "its control group"))
    lines = (*variables_set(put.variables, runtime), *model)
    return Spelled(lines, left, environment=dict(put.variables))


def modelfile(base: str, parameters: Mapping[str, Setting]) -> str:
    """The text of a Modelfile: all else is inherited from the model."""
    return "\n".join(
        [f"FROM {' '.join(base.split())}", *(f"PARAMETER {name} {value}" for name, value in parameters.items())]
    )


def _of_model(base: str, parameters: Mapping[str, Setting], chosen: str, runtime: Runtime, own: str) -> tuple[str, ...]:
    """A model of its own where there is something that only a model can have; another one by its name needs none."""
    if not parameters and (not chosen or not chosen.lower().endswith(".gguf")):
        return (labelled(Place.HAND, f"ask for the model {chosen}{_instead(own)}"),) if chosen else ()
    name = derived_name(own or base)
    system = WINDOWS if home_of(runtime) == "windows" else ""
    return (
        labelled(Place.WHOLE_MODELFILE, modelfile(base, parameters)),
        f"ollama create {quoted(name, system)} -f Modelfile",
        labelled(Place.HAND, f"ask for the model {name}{_instead('' if chosen.lower().endswith('.gguf') else own)}"),
    )


def _of_nameless(parameters: Mapping[str, Setting]) -> tuple[str, ...]:
    """What to do for a model of which nobody knows what Ollama calls it."""
    if not parameters:
        return ()
    lines = [f"PARAMETER {name} {value}" for name, value in parameters.items()]
    return (
        labelled(Place.HAND, _NAMELESS),
        *(labelled(Place.MODELFILE, line) for line in lines),
        f"ollama create {derived_name('model')} -f Modelfile",
    )


def _instead(own: str) -> str:
    return f" in place of {own}" if own else ""
