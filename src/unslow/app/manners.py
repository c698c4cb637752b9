"""What a guest may do with a server that belongs to somebody: whether to measure it at all."""

from typing import NamedTuple

from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Absence, Fact, Known, Unknown, first_known, not_found

MANY_CONVERSATIONS = ("vLLM", "SGLang", "TGI")
"""Runtimes whose cache has room for many prompts: a short one pushes out none that is still of use."""
_OLLAMA_KEEPS_PUSHED_OUT = (0, 30)  # since then a llama-server, which keeps such caches in system memory


class Manners(NamedTuple):
    """What the user allows."""

    passive: bool = False
    quick: bool = False
    evict: bool = False
    api_key: str | None = None


def refusal(subject: Subject, manners: Manners) -> Unknown | None:
    """Why the server is not measured; None where nothing that is known speaks against it."""
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
        looked = runtime.state.absence is Absence.NOT_FOUND  # it answered, and that there is nothing to measure
        why = runtime.state.why if looked else f"it does not answer as a server does: {runtime.state.why}"
        return not_found(why, runtime.state.how_to_get)
    if runtime.state.value != "loaded":
        return not_found(f"its model is {runtime.state.value}", "try again when it is loaded")
    return None


def _not_idle(runtime: Runtime) -> Unknown | None:
    in_work = requests_in_work(runtime)
    if isinstance(in_work, Unknown):
        return _silent(runtime, in_work)
    return busy(in_work.value) if in_work.value else None


def busy(requests: int) -> Unknown:
    """Why a server that works for others is not asked for more."""
    return not_found(f"it is busy with {requests} request{'s' if requests > 1 else ''}", "try again when it is idle")


def requests_in_work(runtime: Runtime) -> Fact[int]:
    """How many requests it answers now."""
    return first_known(runtime.busy_slots, runtime.running_requests)


def _silent(runtime: Runtime, busy: Unknown) -> Unknown | None:
    """A llama-server can say whether it is busy; of others that can't, `caution` tells."""
    if not is_llama_server(runtime):
        return None
    return not_found(f"it does not say whether it is busy: {busy.why}", busy.how_to_get or "is it alive?")


def caution(runtime: Runtime) -> str:
    """What a measurement may be wrong by; empty where nothing is known of."""
    if runtime.embedded or isinstance(requests_in_work(runtime), Known):
        return ""
    return "it does not say whether it is busy: with other requests in work, both would be slower"


def pushes_out(runtime: Runtime) -> Unknown | None:
    """Why measuring might cost somebody the cache of their conversation; for a llama-server its slots tell."""
    name = runtime.name.value_or("")
    if is_llama_server(runtime) or name in MANY_CONVERSATIONS or runtime.longest_sequence.value_or(None) == 0:
        return None
    if name == "Ollama" and version_of(runtime) >= _OLLAMA_KEEPS_PUSHED_OUT:
        return None
    return not_found("a measurement might push out the cache of a conversation", "measure with --evict")


def is_llama_server(runtime: Runtime) -> bool:
    """Whether it is llama.cpp's own server, which shows its slots; nameless ones are taken for it."""
    return runtime.name.value_or("llama.cpp").endswith("llama.cpp")


def version_of(runtime: Runtime) -> tuple[int, ...]:
    """The numbers of a version such as 0.33.0; none where it is unknown or written otherwise."""
    parts = runtime.version.value_or("").split("-")[0].split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() and len(part) < 6 for part in parts) else ()  # noqa: PLR2004 (no version has a million)
