"""Decides whether a server may be measured, says so, and measures it."""

from typing import NamedTuple

import msgspec

from unslow.app.progress import Progress
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known, Unknown, not_found
from unslow.look.bench.completions import COMPLETIONS, MOST_TOKENS, Plan, Target, measure
from unslow.look.bench.observe import observe
from unslow.look.runtimes import llama_cpp
from unslow.look.system import System


class Manners(NamedTuple):
    """What the user allows."""

    passive: bool = False
    quick: bool = False
    evict: bool = False
    api_key: str | None = None


QUICK_S, USUAL_S = 1.5, 5.0


def measured_subject(system: System, subject: Subject, manners: Manners, progress: Progress) -> Subject:
    """The subject with its measurement, or with the reason why there is none."""
    refusal = _refusal(subject, manners)
    if refusal:
        progress.say(f"{subject.runtime.url.value_or('the server')}: {refusal.why}; only observed")
        return _observed(system, subject, refusal, manners, progress)
    url, key = subject.runtime.url.need(), manners.api_key or llama_cpp.key_of(subject.runtime)
    slot = None if subject.runtime.embedded else llama_cpp.unused_slot(system, url, key)
    if slot is None and not subject.runtime.embedded and not manners.evict:
        refusal = not_found("every slot holds a conversation that a measurement would push out", "measure with --evict")
        progress.say(f"{url}: {refusal.why}; only observed")
        return _unmeasured(subject, refusal)
    if not subject.runtime.embedded:
        progress.say(
            f"sending {COMPLETIONS + 1} requests of up to {MOST_TOKENS} tokens to {url} (--passive sends none)"
        )
    plan = Plan(QUICK_S if manners.quick else USUAL_S, slot)
    target = Target(url, llama_cpp.headers(key), subject.runtime.pid.value_or(None))
    run = measure(system, target, plan, progress.step)
    if isinstance(run.decode_tokens_per_s, Unknown):
        progress.say(f"{url}: could not be measured: {run.decode_tokens_per_s.why}")
    return msgspec.structs.replace(subject, run=_with_load(run, subject.run))


def _refusal(subject: Subject, manners: Manners) -> Unknown | None:
    """Why the server is not measured; None where nothing speaks against it."""
    runtime = subject.runtime
    if manners.passive:
        return not_found("--passive was given", "run without --passive")
    if not isinstance(runtime.url, Known):
        return not_found("its address is not known", "give its URL as TARGET")
    if runtime.embedded:
        return None
    return _not_ready(runtime) or _not_idle(runtime)


def _not_ready(runtime: Runtime) -> Unknown | None:
    if isinstance(runtime.state, Unknown):
        return not_found(f"it does not answer as a server does: {runtime.state.why}", runtime.state.how_to_get)
    if runtime.state.value != "loaded":
        return not_found(f"its model is {runtime.state.value}", "try again when it is loaded")
    return None


def _not_idle(runtime: Runtime) -> Unknown | None:
    if isinstance(runtime.busy_slots, Unknown):
        unsaid = runtime.busy_slots
        return not_found(f"it does not say whether it is busy: {unsaid.why}", unsaid.how_to_get or "is it alive?")
    busy = runtime.busy_slots.value
    return (
        not_found(f"it is busy with {busy} request{'s' if busy > 1 else ''}", "try again when it is idle")
        if busy
        else None
    )


def _observed(system: System, subject: Subject, why: Unknown, manners: Manners, progress: Progress) -> Subject:
    """What a busy server shows of the work it is doing anyway."""
    url = subject.runtime.url
    if not isinstance(url, Known) or not subject.runtime.busy_slots.value_or(0):
        return _unmeasured(subject, why)
    progress.step("watching the request that it is answering", 0.5)
    key = manners.api_key or llama_cpp.key_of(subject.runtime)
    speed = observe(system, url.value, llama_cpp.headers(key))
    if isinstance(speed, Unknown):
        return _unmeasured(subject, not_found(f"{why.why}, and {speed.why}", why.how_to_get))
    return msgspec.structs.replace(subject, run=msgspec.structs.replace(subject.run, decode_tokens_per_s=speed))


def _unmeasured(subject: Subject, why: Unknown) -> Subject:
    run = msgspec.structs.replace(subject.run, decode_tokens_per_s=why)
    return msgspec.structs.replace(subject, run=run)


def _with_load(run: Run, before: Run) -> Run:
    return run if isinstance(run.load_s, Known) else msgspec.structs.replace(run, load_s=before.load_s)
