"""The model is loaded again between requests.

## Why it is slow
Loading reads the whole model from disk and copies it to the GPU: seconds to minutes before the first token. It happens
again where two clients ask for different contexts (a chat and its title generator), where `keep_alive` is 0 or short,
where more models take turns than fit at once, or where a setting differs from request to request.

## How to confirm
`load_duration` is long on every request, not only on the first; Ollama's log shows `starting runner` or `starting
llama-server` again and again for one and the same file: with another `--ctx-size`, `-c` or `-t` each time, with other
files in between, or with nothing of both, and then the requests send `keep_alive` 0; a router (llama-swap,
llama-server without `-m`) starts one server after the other.

Guides say that a load of more than 30 s shows that the model spilled, but it shows only how fast its disk is.

## What it is not
The first request, which always loads, and several models that are loaded once each; nor the first one after a pause
that was longer than `keep_alive`, if that is what you want, or after `ollama stop`.

## How to fix
Ollama: one context for all clients (`OLLAMA_CONTEXT_LENGTH`, and no `num_ctx` in requests), `OLLAMA_KEEP_ALIVE=-1`,
`OLLAMA_MAX_LOADED_MODELS` with models that fit together; `keep_alive` in a request goes before the variable.
llama.cpp: `--sleep-idle-seconds -1`, a router with `--models-max` as large as the models that take turns. LM Studio:
a longer `--ttl`, no "auto-evict". vLLM serves one model for as long as it runs; Transformers: keep the model object.
Anywhere: a separate small model for background tasks.

## Safety
Answers do not change. A model that stays loaded keeps its memory.
"""

import re
from itertools import pairwise

import msgspec

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.narrative import names_phase, remarks_on
from unslow.think.case.runtime import EACH, Reloading, keep_alive_s, load_time_s, own_loads, reloading
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, check_by
from unslow.think.causes._evidence import cite_traffic, started_without
from unslow.think.causes._facts import ask_for, cite, cite_remarks
from unslow.think.report import Cost

SEVERAL = 2  # Loads: the first is everybody's
NOTICED_S = 1.0  # A load that takes less is hardly noticed
_AGAIN = re.compile(
    r"every|each|again|between|in turn|constant|always|keeps? |repeat|alternat|\d times|keep_?alive", re.IGNORECASE
)
_LOADS = re.compile(
    r"load|evict|restart|eject|swapp|switch|alternat|keep_?alive|num_ctx|start(?:ing|ed)", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
SHOW = "{loads}"
_KEPT = Remedy(Knob.KEEP_ALIVE.to(-1, "keep the model loaded"), None, "its memory stays taken")
_LEFT_OUT = Remedy(Knob.KEEP_ALIVE.to(None, "change the client that sends `keep_alive` 0, or that stops the model"))
_KNOBS = {"-t": Knob.THREADS, "-ngl": Knob.GPU_LAYERS, "-b": Knob.BATCH, "-ub": Knob.BATCH, "-np": Knob.PARALLEL}
_SHARED = Remedy(Knob.CONTEXT_LENGTH.to(None, "one context for every client, set on the server"))


def _by_command(case: Case) -> Absent | None:
    """A llama-server with a model of its own that it never puts to sleep, and no router before it."""
    own = any(word in ("-m", "--model", "-hf", "--hf-repo") for word in case.runtime.command.value_or([]))
    routed = isinstance(case.runtime.front, Known) and bool(case.runtime.front.value)
    keeps_it = own and not routed and started_without(case, "--sleep-idle", "--models")
    if not keeps_it or reloading(case) or remarks_on(case, Topic.RELOADS):
        return None
    return Absent("it was started with one model, which it keeps")


def _by_traffic(case: Case) -> Found | Suspected | None:
    """Models that came while the server was only watched."""
    traffic = case.run.traffic
    loads = traffic.value.loads.value_or(0) if isinstance(traffic, Known) else 0
    if not isinstance(traffic, Known) or not loads:
        return None
    words = f"{'once' if loads == 1 else f'{loads} times'} in {traffic.value.seconds:.0f} s a model was loaded"
    if loads < SEVERAL and not _is_unkept(case):
        return Suspected(words, "whether it happens with every request", SHOW)
    evidence = (cite_traffic(case, traffic.value, words),)
    return _priced(case, _found(words, evidence, _KEPT if _is_unkept(case) else None))


def _is_unkept(case: Case) -> bool:
    """Whether a model is unloaded as soon as it has answered."""
    return keep_alive_s(case) == 0


def _priced(case: Case, found: Found, requests_per_load: float | None = None) -> Found:
    """The finding with what a request waits for loads on average, where one was timed."""
    seconds = load_time_s(case)
    if not seconds:
        return found
    return found._replace(lost=Cost(seconds=seconds / max(1.0, requests_per_load or 1.0), per="request"))


def _by_setting(case: Case) -> Found | None:
    """A variable that unloads every model at once; a load that took long enough shows what it costs."""
    noticed = (load_time_s(case) or 0.0) >= NOTICED_S
    is_seen = isinstance(case.runtime.url, Known) or bool(case.runtime.loads.value_or([]))
    if not _is_unkept(case) or not ((is_seen and noticed) or names_phase(case, "load", "first_token", "total")):
        return None
    loads = len(own_loads(case))
    seen = f"; its log tells of {loads} loads" if loads >= SEVERAL else ""
    words = f"keep_alive is 0, so the model is unloaded after every request{seen}"
    return _priced(case, _found(words, (cite(case, "runtime.keep_alive_s"),), _KEPT))


def _by_loads(case: Case) -> Found | Absent | Suspected | None:
    loads, again = ask_for(case, "runtime.loads", SHOW), reloading(case)
    if again is None:
        if remarks_on(case, Topic.RELOADS):
            return None
        count, files = len(loads), {load.model.value_or("") for load in loads if not load.failed}
        if len(files) < count:
            return Absent("loaded no more often than a start takes, or than after long pauses")
        return Absent(f"each of {count} models was loaded once" if count > 1 else "it was loaded once")
    files = {load.model.value_or("") for load in again.loads}
    subject = "the model was" if len(files) == 1 else f"{len(files)} models were"
    words = f"{subject} loaded {len(again.loads)} times"
    if again.reason == "unknown":
        return Suspected(words, "why it was unloaded in between", SHOW)
    contexts = ", ".join(str(p.context_length.value_or("?")) for p in again.loads[:6])
    requests = again.reloads[0].requests_since
    counted = f" for {requests} requests" if requests is not None else ""
    cited = cite(case, "runtime.loads", f"{len(again.loads)} loads{counted}", f"contexts {contexts}")
    cited = msgspec.structs.replace(cited, source=again.loads[0].source or cited.source)
    because, remedies = _explained(case, again)
    found = Found(f"{words}{because}", (cited,), remedies=remedies)
    return _priced(case, found, None if (again.requests_per_load or 0.0) <= EACH else again.requests_per_load)


def _explained(case: Case, again: Reloading) -> tuple[str, tuple[Remedy, ...]]:
    """Why it was unloaded in between, and what keeps it loaded."""
    loads = again.loads
    if again.reason == "context":
        sizes = " and ".join(f"{c}" for c in sorted({p.context_length.value_or(0) for p in loads} - {0})[:3])
        return f", because requests ask for contexts of {sizes} tokens in turn", (_SHARED, _KEPT)
    if again.reason == "settings":
        # What some of the starts have and others do not, such as -t 16
        starts = [load.settings.split() for load in again.loads]
        differing = [word for words in starts for word in words if not all(word in other for other in starts)]
        pairs = [f"{a} {b}" for words in starts for a, b in pairwise(words) if b in differing]
        flags = ", ".join(dict.fromkeys(pair for pair in pairs if pair.startswith("-"))) or "; ".join(differing[:4])
        knob = next((knob for flag, knob in _KNOBS.items() if flag in flags.split()), Knob.CONTEXT_LENGTH)
        same = Remedy(knob.to(None, "the same options in all requests for this file, whatever name it is asked by"))
        return f", because requests ask for it with other options in turn ({flags})", (same,)
    if again.reason == "turns":
        models = {load.model.value for load in case.runtime.loads.value_or([]) if isinstance(load.model, Known)}
        change = Knob.LOADED_MODELS.to(len(models), f"room for all {len(models)} models at once, or one model for all")
        room = Remedy(change, None, "memory for each of them")
        return ": more models take turns than stay loaded", (room, _KEPT)
    if again.reason == "expired":
        return f": requests come later than its keep_alive of {keep_alive_s(case):g} s", (_KEPT,)
    return (
        " at the same context, with no other model in between and before its keep_alive had passed: the requests "
        "themselves set `keep_alive` to 0, or something stops the model after each"
    ), (_LEFT_OUT,)


def _by_words(case: Case) -> Found | Suspected | None:
    """Somebody who sees it happen again and again tells the cause; a restart that helped once does not."""
    said = remarks_on(case, Topic.RELOADS)
    if not said:
        return None
    again = [r for r in said if any(_AGAIN.search(s) and _LOADS.search(s) for s in _SENTENCE.split(r.text))]
    if not again or names_phase(case, "decode", "prefill"):
        return Suspected(said[0].text, "how often the model is loaded", SHOW)
    return _found(f"the model is loaded again and again: {again[0].text}", cite_remarks(case, again))


def _found(because: str, evidence: Citations, first: Remedy | None = None) -> Found:
    return Found(because, evidence, remedies=tuple(dict.fromkeys((first or _SHARED, _KEPT))))


CAUSE = Cause(
    title="The model is loaded again between requests",
    phase="load",
    needs=(("run.traffic", "runtime.loads", "runtime.keep_alive_s", "runtime.command", "account.remarks"),),
    check=check_by(_by_traffic, _by_setting, _by_command, _by_loads, _by_words),
    explains=("slow_model_load", "queueing"),
    ask=SHOW,
)
