"""Whether a server may be measured, which belongs to its user: why not, by which key, and on which slot."""

from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Absence, Fact, Known, Unknown, first_known, not_found
from unslow.look.requests import Target
from unslow.look.runtimes.llama_cpp.bench import read_free_slots, read_key_of
from unslow.look.system import System

EVICT = "measure with --evict"  # How to measure where the prompt cache of a conversation is in the way
EVICTED = "it evicts one conversation's prompt cache, so its next turn prefills the whole prompt again"
HELD = not_found("every slot holds a conversation that a measurement would evict", EVICT)
MEASURED_PROMPTS = 8  # Of a diagnosis, at most: a warm-up, three prompts, the turns of a conversation
MANY_CONVERSATIONS = ("vLLM", "SGLang", "TGI")
"""Runtimes whose cache has room for many prompts: a short one pushes out none that is still of use."""
_OLLAMA_KEEPS_PUSHED_OUT = (0, 30)  # since then a llama-server, which keeps such caches in system memory


def refusal(subject: Subject, *, passive: bool = False) -> Unknown | None:
    """Why the server is not measured; None where nothing that is known speaks against it."""
    runtime = subject.runtime
    if passive:
        return not_found("--passive was given", "run without --passive")
    if not isinstance(runtime.process.url, Known):
        return not_found("its address is unknown", "give its URL as TARGET")
    if runtime.embedded:
        return None
    if isinstance(runtime.state, Unknown):
        looked = runtime.state.absence is Absence.NOT_FOUND  # it answered, and that there is nothing to measure
        why = runtime.state.why if looked else f"it does not respond like a server: {runtime.state.why}"
        return not_found(why, runtime.state.how_to_get)
    if runtime.state.value != "loaded":
        return not_found(f"its model is {runtime.state.value}", "try again when it is loaded")
    in_work = requests_in_work(runtime)
    if isinstance(in_work, Known):
        return busy(in_work.value) if in_work.value else None
    # A llama-server can say whether it is busy; of others that can't, `caution` tells
    if not is_llama_server(runtime):
        return None
    return not_found(f"whether it is busy is unknown: {in_work.why}", in_work.how_to_get or "check that it is running")


def busy(requests: int) -> Unknown:
    """Why a server that works for others is not asked for more."""
    return not_found(f"it is busy with {requests} request{'s' if requests > 1 else ''}", "try again when it is idle")


def requests_in_work(runtime: Runtime) -> Fact[int]:
    """How many requests it answers now."""
    return first_known(runtime.scheduling.busy_slots, runtime.scheduling.running_requests)


def caution(runtime: Runtime) -> str:
    """What a measurement may be wrong by; empty where nothing is known of."""
    if runtime.embedded or isinstance(requests_in_work(runtime), Known):
        return ""
    return "whether it is busy is unknown: with other requests running, both would be slower"


def target_of(system: System, subject: Subject, api_key: str | None) -> Target:
    """The server of a subject, with all that asking it needs."""
    runtime = subject.runtime
    # The user's key; else, for a llama-server here, the one that it was started with
    own = is_llama_server(runtime) and not runtime.embedded
    key = api_key or (read_key_of(system, runtime) if own else "")
    # A llama-server alone has one model, whatever it is called; through a router it must be named
    process = runtime.process
    named = not is_llama_server(runtime) or process.front.value_or("").endswith(process.url.value_or("-"))
    return Target(
        url=process.url.need(),
        api_key=key,
        pid=process.pid.value_or(None),
        runtime=runtime.name.value_or("llama.cpp"),
        model=subject.model.name.value_or("") if named else "",
        context=runtime.context.per_slot.value_or(runtime.context.length.value_or(None)),
    )


def slot_of(system: System, subject: Subject, target: Target, *, evict: bool) -> int | Unknown | None:
    """The slot to measure on, None for any; Unknown where every one of them holds a conversation."""
    if subject.runtime.embedded:
        return None
    if not is_llama_server(subject.runtime):
        return None if evict else pushes_out(subject.runtime)
    slot = next(reversed(read_free_slots(target.server(system)).unused), None)
    return HELD if slot is None and not evict else slot


def pushes_out(runtime: Runtime) -> Unknown | None:
    """Why measuring might cost somebody the cache of their conversation; for a llama-server its slots tell."""
    name = runtime.name.value_or("")
    if is_llama_server(runtime) or name in MANY_CONVERSATIONS or runtime.history.longest_sequence.value_or(None) == 0:
        return None
    if runtime.cache.prompts_free.value_or(0) >= MEASURED_PROMPTS or runtime.cache.prompt_cache.get() is False:
        return None  # there is room for more, or nothing is kept at all
    if name == "Ollama" and version_of(runtime) >= _OLLAMA_KEEPS_PUSHED_OUT:
        return None
    return not_found("a measurement might evict a conversation's prompt cache", EVICT)


def is_llama_server(runtime: Runtime) -> bool:
    """Whether it is llama.cpp's own server, which shows its slots; nameless ones are taken for it."""
    return runtime.name.value_or("llama.cpp").endswith("llama.cpp")


def version_of(runtime: Runtime) -> tuple[int, ...]:
    """The numbers of a version such as 0.33.0; none where it is unknown or written otherwise."""
    parts = runtime.version.value_or("").split("-")[0].split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() and len(part) < 6 for part in parts) else ()  # noqa: PLR2004 (no version has a million)
