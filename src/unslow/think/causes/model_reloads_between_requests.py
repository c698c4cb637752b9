"""The model is loaded again between requests.

## Why it is slow
Loading reads the whole model from disk and copies it to the GPU: seconds to minutes before the first token. It happens
again where two clients ask for different contexts (a chat and its title generator), where `keep_alive` is 0 or short,
where more models take turns than fit at once, or where a setting differs from request to request.

## How to confirm
`load_duration` is long on every request, not only on the first; Ollama's log shows `starting runner` or `starting
llama-server` again and again, with another `--ctx-size` or `-c` each time; a router (llama-swap, llama-server without
`-m`) starts one server after the other.

Guides say that a load of more than 30 s shows that the model spilled, but it shows only how fast its disk is.

## What it is not
The first request, which always loads; nor the first one after a pause that was longer than `keep_alive`, if that is
what you want.

## How to fix
Ollama: one context for all clients (`OLLAMA_CONTEXT_LENGTH`, and no `num_ctx` in requests), `OLLAMA_KEEP_ALIVE=-1`,
`OLLAMA_MAX_LOADED_MODELS` with models that fit together. llama.cpp: `--sleep-idle-seconds -1`, a router with
`--models-max` as large as the models that take turns. LM Studio: a longer `--ttl`, no "auto-evict". vLLM serves one
model for as long as it runs; Transformers: keep the model object. Anywhere: a separate small model for background
tasks.

## Safety
Answers do not change. A model that stays loaded keeps its memory.
"""

import re
import statistics
from itertools import pairwise

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.runtime import PastLoad
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.account import remarks_on
from unslow.think.adapt.experiments import names_phase
from unslow.think.adapt.past_loads import loads_in_a_row
from unslow.think.causes._asking import ask_for
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
from unslow.think.causes._command import serves_one_model
from unslow.think.causes._routes import cite_remarks, first_to_decide
from unslow.think.causes._traffic import cite_traffic
from unslow.think.report import Cost, Evidence

MANY = 3
"""Loads: two are a start and a change of mind."""
SEVERAL = 2
"""Loads: the first is everybody's."""
NOTICED_S = 1.0
"""A load that takes less is hardly noticed."""
LONG_S = 5.0
"""Seconds of `load duration`: a model that is loaded takes a fraction of one."""
_AGAIN = re.compile(
    r"every|each|again|between|in turn|constant|always|keeps? |repeat|alternat|\d times|keep_?alive", re.IGNORECASE
)
_LOADS = re.compile(
    r"load|evict|restart|eject|swapp|switch|alternat|keep_?alive|num_ctx|start(?:ing|ed)", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
SHOW = "{loads}"
_KEPT = Remedy(Knob.KEEP_ALIVE.to(-1, "keep the model loaded"), None, "its memory stays taken")
_SHARED = Remedy(Knob.CONTEXT_LENGTH.to(None, "one context for every client, set on the server"))


def check(case: Case) -> Found | Absent | Suspected:
    """Look for loads that take turns, for a model that is never kept, and for what somebody saw."""
    return first_to_decide(case, _by_traffic, _by_setting, _by_command, _by_loads, _by_words)


def _by_command(case: Case) -> Absent | None:
    loads = case.runtime.loads.value_or([])
    if not serves_one_model(case) or len(loads) >= MANY or remarks_on(case, Topic.RELOADS):
        return None
    return Absent("it was started with one model, which it keeps")


def _by_traffic(case: Case) -> Found | Suspected | None:
    """Models that came while the server was only watched."""
    traffic = case.run.traffic
    loads = traffic.value.loads.value_or(0) if isinstance(traffic, Known) else 0
    if not isinstance(traffic, Known) or not loads:
        return None
    words = f"{_times(loads)} in {traffic.value.seconds:.0f} s a model was loaded"
    if loads < SEVERAL and not _is_unkept(case):
        return Suspected(words, "whether it happens with every request", SHOW)
    return _priced(case, _found(words, (cite_traffic(traffic, words),), _KEPT if _is_unkept(case) else None))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _is_unkept(case: Case) -> bool:
    """Whether a model is unloaded as soon as it has answered."""
    keep = case.runtime.keep_alive_s
    return isinstance(keep, Known) and keep.value == 0


def _priced(case: Case, found: Found) -> Found:
    """The finding with what a load takes each time, where one was timed."""
    timed = [load.seconds.value for load in case.runtime.loads.value_or([]) if isinstance(load.seconds, Known)]
    seconds = statistics.median(timed) if timed else case.run.load_s.value_or(0.0)
    return found._replace(lost=Cost(seconds=seconds, per="request")) if seconds else found


def _by_loads(case: Case) -> Found | Absent | Suspected | None:
    loads = case.runtime.loads
    if not isinstance(loads, Known):
        ask_for(case, "runtime.loads", SHOW)
        return None
    again = loads_in_a_row(loads.value)
    if len(again) < MANY:
        if remarks_on(case, Topic.RELOADS):
            return None
        return _waited(case) or Absent("loaded no more often than a start takes, or than after long pauses")
    contexts, models = _changes(again, "context_length"), _changes(again, "model")
    words = f"the model was loaded {len(again)} times"
    evidence = (_cited(loads, again),)
    if contexts >= MANY - 1 and not models:
        sizes = " and ".join(f"{c}" for c in sorted({p.context_length.value_or(0) for p in again} - {0})[:3])
        return _priced(case, _found(f"{words}, because requests ask for contexts of {sizes} tokens in turn", evidence))
    if models >= MANY - 1:
        because = f"{words}: more models take turns than stay loaded"
        return _priced(case, _found(because, evidence, _room_for(again)))
    return Suspected(words, "why it was unloaded in between", SHOW)


def _waited(case: Case) -> Suspected | None:
    """A request that had to wait for a load: Ollama counts the load of the request itself, not that of its start."""
    waited = case.run.load_s.value_or(0.0)
    if (
        waited < LONG_S
        or "ollama" not in case.runtime.name.value_or("").lower()
        or not case.run.completions.value_or(())
    ):
        return None
    return Suspected(f"the request waited {waited:.0f} s for the model to load", "whether the next one waits too", SHOW)


def _changes(loads: list[PastLoad], name: str) -> int:
    """How often a fact of a load differs from that of the load before."""
    values = [getattr(load, name) for load in loads]
    return sum(a.value != b.value for a, b in pairwise(v for v in values if isinstance(v, Known)))


def _cited(loads: Known[list[PastLoad]], again: list[PastLoad]) -> Evidence:
    seen = ", ".join(str(p.context_length.value_or("?")) for p in again[:6])
    return Evidence(
        fact="runtime.loads", value=f"contexts {seen}", reference=f"{len(again)} loads", origin=str(loads.origin),
        source=again[0].source or loads.source,
    )  # fmt: skip


def _by_setting(case: Case) -> Found | None:
    timed = isinstance(case.runtime.url, Known) and case.run.load_s.value_or(0.0) >= NOTICED_S
    if not _is_unkept(case) or not (timed or names_phase(case, "load", "first_token", "total")):
        return None
    words = "keep_alive is 0, so the model is unloaded after every request"
    return _priced(case, _found(words, (cite(case, "runtime.keep_alive_s"),), _KEPT))


def _by_words(case: Case) -> Found | Suspected | None:
    """Somebody who sees it happen again and again tells the cause; a restart that helped once does not."""
    said = remarks_on(case, Topic.RELOADS)
    if not said:
        return None
    again = [r for r in said if any(_AGAIN.search(s) and _LOADS.search(s) for s in _SENTENCE.split(r.text))]
    if not again or names_phase(case, "decode", "prefill"):
        return Suspected(said[0].text, "how often the model is loaded", SHOW)
    return _found(f"the model is loaded again and again: {again[0].text}", cite_remarks(case, again))


def _room_for(loads: list[PastLoad]) -> Remedy:
    """All models that take turns, loaded at once."""
    models = {load.model.value for load in loads if isinstance(load.model, Known)}
    change = Knob.LOADED_MODELS.to(len(models), f"room for all {len(models)} models at once, or one model for all")
    return Remedy(change, None, "memory for each of them")


def _found(because: str, evidence: tuple[Evidence, ...], first: Remedy | None = None) -> Found:
    return Found(because, evidence, remedies=tuple(dict.fromkeys((first or _SHARED, _KEPT))))


CAUSE = Cause(
    title="The model is loaded again between requests",
    phase="load",
    needs=(("run.traffic", "runtime.loads", "runtime.keep_alive_s", "runtime.command", "account.remarks"),),
    check=check,
    explains=("slow_model_load", "queueing"),
    ask=SHOW,
)
