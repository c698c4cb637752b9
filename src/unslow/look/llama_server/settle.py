"""One answer from several sources.

The log tells what was decided, the running server what holds now, the command line what was asked for.
"""

import re
from typing import Any

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Absence, Fact, Known, Origin, Unknown, estimated, first_known, not_supported

FIRST_BUILD_WITH_FIT = 7407  # 2025-12-15
_ASKED = ("gpu_layers_set", "context_set", "fit", "fit_margin_bytes", "tensor_overrides", "device_set")
_CURRENT = ("state", "version", "slots", "context_per_slot")


def settled(asked: Runtime, http: Subject, log: Subject) -> Subject:
    """The deciding value of every fact."""
    runtime = overlaid(overlaid(asked, http.runtime), log.runtime)
    changes: dict[str, Any] = {
        **{name: first_known(getattr(http.runtime, name), getattr(runtime, name)) for name in _CURRENT},
        **{name: first_known(getattr(asked, name), getattr(runtime, name)) for name in _ASKED},
    }
    runtime = _completed(msgspec.structs.replace(runtime, **changes))
    model = exact(http.model, log.model)
    if runtime.tensor_overrides.value_or([]):
        # with tensors sent to the host by name, what lies there is more than the token table
        model = msgspec.structs.replace(model, token_table_bytes=NOT_LOOKED)
    return Subject(runtime=runtime, model=model)


def _completed(runtime: Runtime) -> Runtime:
    """What follows from the rest where nobody says it, as on a server that hides its load lines."""
    return msgspec.structs.replace(
        runtime,
        fit=first_known(runtime.fit, _default_fit(runtime)),
        context_length=first_known(runtime.context_length, _context_length(runtime)),
    )


def _default_fit(runtime: Runtime) -> Fact[bool]:
    build = re.match(r"b(\d{1,9})-", runtime.version.value_or(""))
    if not (isinstance(runtime.fit, Unknown) and runtime.fit.absence is Absence.NOT_FOUND and build):
        return NOT_LOOKED
    if int(build[1]) < FIRST_BUILD_WITH_FIT:
        return not_supported(f"b{build[1]} is older than the fit")
    return estimated(value=True, source=f"default of llama.cpp since b{FIRST_BUILD_WITH_FIT}")


def _context_length(runtime: Runtime) -> Fact[int]:
    """One cache shared by all slots, or a part for each."""
    if not (isinstance(runtime.context_per_slot, Known) and isinstance(runtime.kv_unified, Known)):
        return NOT_LOOKED
    slots = 1 if runtime.kv_unified.value else runtime.slots.value_or(0)
    source = f"{runtime.context_per_slot.source}: context of a slot, by {runtime.kv_unified.source}"
    return estimated(runtime.context_per_slot.value * slots, source) if slots else NOT_LOOKED


def exact(base: Model, over: Model) -> Model:
    """`over` on top, except where it only estimates what `base` was told."""
    keep: dict[str, Any] = {}
    for name in over.__struct_fields__:
        told, guess = getattr(base, name), getattr(over, name)
        if isinstance(told, Known) and isinstance(guess, Known) and guess.origin is Origin.ESTIMATED:
            keep[name] = told
    return msgspec.structs.replace(overlaid(base, over), **keep)
