"""The server of a subject, as a measurement asks it: where, with which key, and on which slot."""

from unslow.app.manners import EVICT, Manners, is_llama_server, pushes_out
from unslow.facts.snapshot import Subject
from unslow.facts.values import Unknown, not_found
from unslow.look.bench.guest import Target
from unslow.look.llama_server.measuring import read_key_of, read_unused_slot
from unslow.look.system import System

HELD = not_found("every slot holds a conversation that a measurement would push out", EVICT)


def target_of(system: System, subject: Subject, manners: Manners) -> Target:
    """The server of a subject, with all that asking it needs."""
    runtime = subject.runtime
    return Target(
        url=runtime.url.need(),
        api_key=_key(system, subject, manners),
        pid=runtime.pid.value_or(None),
        runtime=runtime.name.value_or("llama.cpp"),
        model=subject.model.name.value_or("") if _wants_a_name(subject) else "",
        context=runtime.context_per_slot.value_or(runtime.context_length.value_or(None)),
    )


def _wants_a_name(subject: Subject) -> bool:
    """A llama-server alone has one model, whatever it is called; through a router it must be named."""
    runtime = subject.runtime
    return not is_llama_server(runtime) or runtime.front.value_or("").endswith(runtime.url.value_or("-"))


def _key(system: System, subject: Subject, manners: Manners) -> str:
    """The user's key; else, for a llama-server here, the one that it was started with."""
    own = is_llama_server(subject.runtime) and not subject.runtime.embedded
    return manners.api_key or (read_key_of(system, subject.runtime) if own else "")


def slot_of(system: System, subject: Subject, target: Target, manners: Manners) -> int | Unknown | None:
    """The slot to measure on, None for any; Unknown where every one of them holds a conversation."""
    if subject.runtime.embedded:
        return None
    if not is_llama_server(subject.runtime):
        return None if manners.evict else pushes_out(subject.runtime)
    slot = read_unused_slot(target.server(system))
    return HELD if slot is None and not manners.evict else slot
