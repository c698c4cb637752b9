"""One answer from several sources.

The log tells what was decided, the running server what holds now, the command line what was asked for.
"""

from typing import Any

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Known, Origin, first_known

_ASKED = ("gpu_layers_set", "context_set", "fit", "fit_margin_bytes", "tensor_overrides", "device_set")
_CURRENT = ("state", "version", "slots", "context_per_slot")


def settled(asked: Runtime, http: Subject, log: Subject) -> Subject:
    """The deciding value of every fact."""
    runtime = overlaid(overlaid(asked, http.runtime), log.runtime)
    changes: dict[str, Any] = {
        **{name: first_known(getattr(http.runtime, name), getattr(runtime, name)) for name in _CURRENT},
        **{name: first_known(getattr(asked, name), getattr(runtime, name)) for name in _ASKED},
    }
    runtime = msgspec.structs.replace(runtime, **changes)
    model = exact(http.model, log.model)
    if runtime.tensor_overrides.value_or([]):
        # with tensors sent to the host by name, what lies there is more than the token table
        model = msgspec.structs.replace(model, token_table_bytes=NOT_LOOKED)
    return Subject(runtime=runtime, model=model)


def exact(base: Model, over: Model) -> Model:
    """`over` on top, except where it only estimates what `base` was told."""
    keep: dict[str, Any] = {}
    for name in over.__struct_fields__:
        told, guess = getattr(base, name), getattr(over, name)
        if isinstance(told, Known) and isinstance(guess, Known) and guess.origin is Origin.ESTIMATED:
            keep[name] = told
    return msgspec.structs.replace(overlaid(base, over), **keep)
