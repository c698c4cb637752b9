"""One answer from several sources.

The log tells what was decided, the running server what holds now, the command line what was asked for.
"""

from typing import Any

import msgspec

from unslow.facts.machine import Machine
from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Fact, Known, Origin, estimated, first_known
from unslow.look.contradictions import contradictions
from unslow.look.llama_server.builds import (
    AUTOMATIC_SLOTS,
    FLASH_ATTENTION_TAKES_A_VALUE,
    build_number,
    is_not_given,
    with_defaults,
)

_ASKED = ("gpu_layers_set", "context_set", "fit", "fit_margin_bytes", "tensor_overrides", "device_set")
_CURRENT = ("state", "version", "slots", "context_per_slot")


def settled(asked: Runtime, http: Subject, log: Subject, at_least: Fact[int] = NOT_LOOKED) -> Subject:
    """The deciding value of every fact, and where the sources contradict one another.

    `at_least` is the oldest build that the server can be, for one that has no number.
    """
    runtime = overlaid(overlaid(asked, http.runtime), log.runtime)
    changes: dict[str, Any] = {
        **{name: first_known(getattr(http.runtime, name), getattr(runtime, name)) for name in _CURRENT},
        **{name: first_known(getattr(asked, name), getattr(runtime, name)) for name in _ASKED},
    }
    build = build_number(changes["version"]) or at_least.value_or(0)
    runtime = _completed(msgspec.structs.replace(runtime, **changes), asked, log.runtime, build)
    model = exact(http.model, log.model)
    sources = [("asked for", asked), ("decided", log.runtime), ("reported", http.runtime)]
    found = contradictions(sources, model, Machine())
    if runtime.tensor_overrides.value_or([]):
        # with tensors sent to the host by name, what lies there is more than the token table
        model = msgspec.structs.replace(model, token_table_bytes=NOT_LOOKED)
    return Subject(runtime=runtime, model=model, contradictions=found)


def _completed(runtime: Runtime, asked: Runtime, log: Runtime, build: int) -> Runtime:
    """What follows from the rest where nobody says it, as on a server that hides its load lines."""
    follows: dict[str, Fact[Any]] = {
        **with_defaults(asked, runtime.version, build),
        "kv_unified": _unified(asked, build),
        "flash_attention": _flash_attention(asked, log, build),
        "threads_batch": _threads_batch(runtime, asked),
    }
    known = {name: first_known(getattr(runtime, name), fact) for name, fact in follows.items()}
    runtime = msgspec.structs.replace(runtime, **known)
    length = first_known(runtime.context_length, _context_length(runtime))
    batch = _at_most(runtime.batch, length)
    ubatch = _at_most(runtime.ubatch, batch)
    return msgspec.structs.replace(runtime, context_length=length, batch=batch, ubatch=ubatch)


def _unified(asked: Runtime, build: int) -> Fact[bool]:
    """Slots that nobody counted share one cache; those that somebody counted have a part each."""
    chosen = is_not_given(asked.slots)
    if build < AUTOMATIC_SLOTS or not is_not_given(asked.kv_unified) or not (chosen or isinstance(asked.slots, Known)):
        return NOT_LOOKED
    return estimated(chosen, f"default of llama.cpp since b{AUTOMATIC_SLOTS} {'without' if chosen else 'with'} -np")


def _flash_attention(asked: Runtime, log: Runtime, build: int) -> Fact[bool]:
    """Left to itself it is on; that it can't be is a warning, which no verbosity hides."""
    heard = isinstance(log.name, Known) and log.state.value_or("") == "loaded"
    if not is_not_given(asked.flash_attention) or not heard or build < FLASH_ATTENTION_TAKES_A_VALUE:
        return NOT_LOOKED
    return estimated(value=True, source="left to llama.cpp, and its log does not warn that it is off")


def _threads_batch(runtime: Runtime, asked: Runtime) -> Fact[int]:
    if not is_not_given(asked.threads_batch) or not isinstance(runtime.threads, Known):
        return NOT_LOOKED
    return estimated(runtime.threads.value, f"as many as threads ({runtime.threads.source}): no -tb")


def _context_length(runtime: Runtime) -> Fact[int]:
    """One cache shared by all slots, or a part for each."""
    if not (isinstance(runtime.context_per_slot, Known) and isinstance(runtime.kv_unified, Known)):
        return NOT_LOOKED
    slots = 1 if runtime.kv_unified.value else runtime.slots.value_or(0)
    source = f"{runtime.context_per_slot.source}: context of a slot, by {runtime.kv_unified.source}"
    return estimated(runtime.context_per_slot.value * slots, source) if slots else NOT_LOOKED


def _at_most(batch: Fact[int], limit: Fact[int]) -> Fact[int]:
    """No batch is longer than the context, and no part of it longer than the batch."""
    if not (isinstance(batch, Known) and isinstance(limit, Known)) or batch.value <= limit.value:
        return batch
    return estimated(limit.value, f"{batch.source}, and no more than {limit.value} ({limit.source})")


def exact(base: Model, over: Model) -> Model:
    """`over` on top, except where it only estimates what `base` was told."""
    keep: dict[str, Any] = {}
    for name in over.__struct_fields__:
        told, guess = getattr(base, name), getattr(over, name)
        if isinstance(told, Known) and isinstance(guess, Known) and guess.origin is Origin.ESTIMATED:
            keep[name] = told
    return msgspec.structs.replace(overlaid(base, over), **keep)
