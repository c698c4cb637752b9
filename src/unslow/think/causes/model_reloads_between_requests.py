"""The model is loaded again between requests.

## Why it is slow
Loading reads the whole model from disk and copies it to the GPU: seconds to minutes before the first token. It happens
again where two clients ask for different context lengths (a chat and its title generator), where `keep_alive` is 0 or
short, where more models take turns than fit at once, or where an option differs from request to request.

## How to confirm
`load_duration` is long on every request, not only on the first. Ollama's log shows `starting runner` or `starting
llama-server` again and again for the same file: with another `--ctx-size`, `-c` or `-t` each time, with other files in
between, or with neither, in which case the requests send `keep_alive` 0. A router (llama-swap, llama-server without
`-m`) starts one server after the other.

Guides say that a load of more than 30 s shows that the model spilled, but it only shows how fast the disk is.

## What it is not
The first request, which always loads, and several models that are loaded once each. Nor the first request after a
pause longer than `keep_alive`, if that is what you want, or after `ollama stop`.

## How to fix
Ollama: one context length for all clients (`OLLAMA_CONTEXT_LENGTH`, and no `num_ctx` in requests),
`OLLAMA_KEEP_ALIVE=-1`, `OLLAMA_MAX_LOADED_MODELS` with models that fit together; `keep_alive` in a request overrides
the variable. llama.cpp: `--sleep-idle-seconds -1`, a router with `--models-max` as large as the number of models that
take turns. LM Studio: a longer `--ttl`, no "auto-evict". vLLM serves one model for as long as it runs; Transformers:
keep the model object. Anywhere: a separate small model for background tasks.

## Safety
Answers do not change. A model that stays loaded keeps its memory.
"""

import re

import msgspec

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.engine import EACH, Reloading
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding
from unslow.think.report import Cost

SEVERAL = 2  # Loads: the first one is unavoidable
NOTICED_S = 1.0  # A shorter load is hardly noticed
_AGAIN = re.compile(
    r"every|each|again|between|in turn|constant|always|keeps? |repeat|alternat|\d times|keep_?alive", re.IGNORECASE
)
_LOADS = re.compile(
    r"load|evict|restart|eject|swapp|switch|alternat|keep_?alive|num_ctx|start(?:ing|ed)", re.IGNORECASE
)
_FLAG = re.compile(r"-\S+(?: (?!-[A-Za-z-])\S+)?")  # With its value, which may be a negative number
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
SHOW = "{loads}"
KEEP_LOADED = Remedy(Knob.KEEP_ALIVE.to(-1, "keep the model loaded"), None, "its memory stays taken")
ONE_CONTEXT = Remedy(Knob.CONTEXT_LENGTH.to(None, "one context length for all clients, set on the server"))
CHANGE_CLIENT = Knob.KEEP_ALIVE.to(None, "change the client that sends `keep_alive` 0 or stops the model")
_KNOBS = {"-t": Knob.THREADS, "-ngl": Knob.GPU_LAYERS, "-b": Knob.BATCH, "-ub": Knob.BATCH, "-np": Knob.PARALLEL}
OF_THREADS = ("threads_too_few", "threads_exceed_cores")


def watched_loads(case: CaseView) -> Found | Suspected | None:
    """Models that were loaded while the server was watched."""
    traffic = case.run.traffic.get()
    loads = traffic.loads.get() if traffic else None
    if not traffic or not loads:
        return None
    words = f"{loads} model load{'' if loads == 1 else 's'} in {traffic.seconds:.0f} s"
    if case.engine.keep_alive_s == 0:
        fixes = [KEEP_LOADED]
    elif loads < SEVERAL:
        return Suspected(words, "whether it happens with every request", SHOW)
    else:
        fixes = [ONE_CONTEXT, KEEP_LOADED]
    return finding(case, words, case.waits.cite_traffic(traffic, words), fixes=fixes, lost=load_cost(case))


def keep_alive_setting(case: CaseView) -> Found | None:
    """A `keep_alive` of 0, with a load that took long enough to notice or a complaint about it."""
    took, loads = case.engine.load_time_s, len(case.engine.own_loads)
    has_loaded = isinstance(case.runtime.process.url, Known) or bool(case.engine.loads)
    noticed = has_loaded and took is not None and took >= NOTICED_S
    if case.engine.keep_alive_s != 0 or not (noticed or case.narrative.names_phase("load", "first_token", "total")):
        return None
    logged = f"; the log shows {loads} loads" if loads >= SEVERAL else ""
    words = f"keep_alive is 0, so the model is unloaded after every request{logged}"
    return finding(case, words, "runtime.scheduling.keep_alive_s", fixes=[KEEP_LOADED], lost=load_cost(case))


def command_line(case: CaseView) -> Absent | None:
    """A llama-server with a model of its own that never sleeps, and no router in front of it."""
    own = any(word in ("-m", "--model", "-hf", "--hf-repo") for word in case.engine.command)
    keeps = own and not case.runtime.process.front.get() and case.engine.started_without("--sleep-idle", "--models")
    if not keeps or case.engine.reloads or case.narrative.remarks_on(Topic.RELOADS):
        return None
    return Absent("it was started with one model and keeps it loaded")


def logged_loads(case: CaseView) -> Found | Absent | Suspected | None:
    """The loads in the log: the same file again, and what differs from one load to the next."""
    loads, again = case.ask_for("runtime.history.loads", SHOW), case.engine.reloads
    if again is None:
        if case.narrative.remarks_on(Topic.RELOADS):
            return None
        if len({load.model.get() for load in loads if not load.failed}) < len(loads):
            return Absent("loaded only at a start, or after long pauses")
        return Absent(f"each of {len(loads)} models was loaded once" if len(loads) > 1 else "it was loaded once")
    files = len({load.model.get() for load in again.loads})
    words = f"{'the model was' if files == 1 else f'{files} models were'} loaded {len(again.loads)} times"
    if again.reason == "unknown":
        return Suspected(words, "why it was unloaded in between", SHOW)
    sizes = [load.context_length.get() for load in again.loads]
    contexts = ", ".join("?" if size is None else str(size) for size in sizes[:6])
    requests, each = again.reloads[0].requests_since, again.requests_per_load
    counted = f" for {requests} requests" if requests is not None else ""
    cited = case.cite("runtime.history.loads", f"{len(again.loads)} loads{counted}", f"contexts {contexts}")
    because, fixes = reason_to_reload(case, again)
    # Of a setting that alternates, what the last load was started with is one of several
    alternates = again.reason == "settings" and any(fix.change.knob is Knob.THREADS for fix in fixes)
    return finding(
        case,
        f"{words}{because}",
        msgspec.structs.replace(cited, source=again.loads[0].source or cited.source),
        fixes=fixes,
        explains=(*CAUSE.explains, *OF_THREADS) if alternates else None,
        lost=load_cost(case, each if each is not None and each > EACH else 1.0),
    )


def reason_to_reload(case: CaseView, again: Reloading) -> tuple[str, list[Remedy]]:
    """Why it was unloaded in between, and what keeps it loaded."""
    if again.reason == "context":
        sizes = sorted({size for load in again.loads if (size := load.context_length.get())})
        words = " and ".join(str(size) for size in sizes[:3])
        return f", because requests alternate between context lengths {words}", [ONE_CONTEXT, KEEP_LOADED]
    if again.reason == "settings":
        # What some of the loads were started with and others were not, such as `-t 16`
        starts = [_FLAG.findall(load.settings) for load in again.loads]
        differing = [flag for flags in starts for flag in flags if not all(flag in other for other in starts)]
        options = ", ".join(list(dict.fromkeys(differing))[:4])
        knob = next((knob for flag, knob in _KNOBS.items() if flag in options.split()), Knob.CONTEXT_LENGTH)
        same = knob.to(None, "the same options in all requests for this file, under whatever name")
        return f", because requests alternate between options ({options})", [Remedy(same)]
    if again.reason == "turns":
        models = len({load.model.value for load in case.engine.loads if isinstance(load.model, Known)})
        change = Knob.LOADED_MODELS.to(models, f"room for all {models} models at once, or one model for all")
        room = Remedy(change, None, "memory for each of them")
        return ": more models take turns than stay loaded", [room, KEEP_LOADED]
    if again.reason == "expired":
        return f": requests arrive after its keep_alive of {case.engine.keep_alive_s:g} s", [KEEP_LOADED]
    return (
        " with the same context length, no other model in between, and before its keep_alive expired: the requests "
        "set `keep_alive` to 0, or something stops the model after each one"
    ), [Remedy(CHANGE_CLIENT)]


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """The report says that the model is loaded again and again; a restart that helped once is not that."""
    said = case.narrative.remarks_on(Topic.RELOADS)
    if not said:
        return None
    again = [r for r in said if any(_AGAIN.search(s) and _LOADS.search(s) for s in _SENTENCE.split(r.text))]
    if not again or case.narrative.names_phase("decode", "prefill"):
        return Suspected(said[0].text, "how often the model is loaded", SHOW)
    words = f"the model is loaded again and again: {again[0].text}"
    return finding(case, words, case.narrative.cite_remarks(again), fixes=[ONE_CONTEXT, KEEP_LOADED])


def load_cost(case: CaseView, requests_per_load: float = 1.0) -> Cost | None:
    """What a request waits for loads on average, where one was timed."""
    seconds = case.engine.load_time_s
    return Cost(seconds=seconds / requests_per_load, per="request") if seconds else None


CAUSE = Cause(
    title="The model is loaded again between requests",
    phase="load",
    needs=all_of(
        "run.traffic or runtime.history.loads or runtime.scheduling.keep_alive_s or runtime.process.command or "
        "account.remarks"
    ),
    routes=(
        Route("measured", watched_loads),
        Route("counted", keep_alive_setting),
        Route("counted", command_line),
        Route("log", logged_loads),
        Route("told", said_by_person),
    ),
    explains=("slow_model_load", "queueing"),
    ask=SHOW,
)
