"""Decides whether a server may be measured, says so, and measures it."""

import msgspec

from unslow.app.manners import Manners, caution, is_llama_server, pushes_out, refusal, requests_in_work
from unslow.app.progress import Progress
from unslow.facts.run import Run
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known, Unknown, not_found
from unslow.look.bench.completions import COMPLETIONS, MOST_TOKENS, measure
from unslow.look.bench.guest import Plan, Target
from unslow.look.bench.observe import observe
from unslow.look.llama_server.measuring import read_key_of, read_unused_slot
from unslow.look.system import System

QUICK_S, USUAL_S = 1.5, 5.0

__all__ = ["Manners", "measured_subject", "slot_of", "target_of"]


def measured_subject(system: System, subject: Subject, manners: Manners, progress: Progress) -> Subject:
    """The subject with its measurement, or with the reason why there is none."""
    why = refusal(subject, manners)
    if why:
        progress.say(f"{subject.runtime.url.value_or('the server')}: {why.why}; only observed")
        return _observed(system, subject, why, manners, progress)
    target = target_of(system, subject, manners)
    slot = slot_of(system, subject, target, manners)
    if isinstance(slot, Unknown):
        progress.say(f"{target.url}: {slot.why}; only observed")
        return _unmeasured(subject, slot)
    _announce(subject, target, progress)
    run = measure(system, target, Plan(QUICK_S if manners.quick else USUAL_S, slot), progress.step)
    if isinstance(run.decode_tokens_per_s, Unknown):
        progress.say(f"{target.url}: could not be measured: {run.decode_tokens_per_s.why}")
    return msgspec.structs.replace(subject, run=_with_load(run, subject.run))


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
    if slot is None and not manners.evict:
        return not_found("every slot holds a conversation that a measurement would push out", "measure with --evict")
    return slot


def _announce(subject: Subject, target: Target, progress: Progress) -> None:
    if subject.runtime.embedded:
        return
    progress.say(
        f"sending {COMPLETIONS + 1} requests of up to {MOST_TOKENS} tokens to {target.url} (--passive sends none)"
    )
    if care := caution(subject.runtime):
        progress.say(f"{target.url}: {care}")


def _observed(system: System, subject: Subject, why: Unknown, manners: Manners, progress: Progress) -> Subject:
    """What a busy server shows of the work it is doing anyway."""
    if not isinstance(subject.runtime.url, Known) or not requests_in_work(subject.runtime).value_or(0):
        return _unmeasured(subject, why)
    progress.step("watching the request that it is answering", 0.5)
    target = target_of(system, subject, manners)
    speed = observe(target.server(system), target.runtime)
    if isinstance(speed, Unknown):
        return _unmeasured(subject, not_found(f"{why.why}, and {speed.why}", why.how_to_get))
    return msgspec.structs.replace(subject, run=msgspec.structs.replace(subject.run, decode_tokens_per_s=speed))


def _unmeasured(subject: Subject, why: Unknown) -> Subject:
    run = msgspec.structs.replace(subject.run, decode_tokens_per_s=why)
    return msgspec.structs.replace(subject, run=run)


def _with_load(run: Run, before: Run) -> Run:
    return run if isinstance(run.load_s, Known) else msgspec.structs.replace(run, load_s=before.load_s)
