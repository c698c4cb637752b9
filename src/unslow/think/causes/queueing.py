"""Most of the time until the first token is spent waiting for a turn.

## Why it is slow
The server is busy with other requests. It answers quickly once it begins; until then a request stands in its queue.

## How to confirm
The server's own time for a prompt is short, the client's time to the first token is long, and the server counts
requests that wait (llama.cpp `requests_deferred`, vLLM `num_requests_waiting`, `Waiting: N reqs`, SGLang
`num_queue_reqs`).

## What it is not
Several requests at once that all start at once, however many; nor a long prompt, which is being read and does not
wait.

## How to fix
More capacity. llama.cpp: more slots where memory allows (`-np 8 -kvu`); Ollama: `OLLAMA_NUM_PARALLEL`; LM Studio:
`--parallel`; vLLM: `--max-num-seqs`; SGLang: `--max-running-requests`; Transformers: a server that batches; else a
second server, shorter answers, or fewer background requests.

## Safety
Answers do not change. More slots make each conversation a little slower.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.runtime import IN_BATCHES
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.narrative import is_report, names_phase, remarks_on
from unslow.think.case.waits import SOMEBODY, is_history
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, check_by
from unslow.think.causes._evidence import cite_traffic, counts_waiting, nobody_else, waited
from unslow.think.causes._facts import ask_for, cite, cite_remarks
from unslow.think.report import Cost

MOST = 0.5  # Of the time to the first token
LONG_S = 0.5  # A request that waits for less is not noticed beside its prompt
MANY = 10
TAKEN = 0.9  # Of the places: samples of a full house find one empty now and then
ROOM = 0.7  # Of the cache: with less of it in use on average, it is not what requests wait for
_MODELS = re.compile(r"(?i)\bmodels\b")
"""Requests for several models wait for one another to be loaded: that is no queue."""
SHOW = "while it is slow: {queue}"


def _by_traffic(case: Case) -> Found | Absent | None:
    """Who waited while the server was only watched."""
    traffic = case.run.traffic
    if not isinstance(traffic, Known) or not counts_waiting(case):
        return None
    waiting, running = traffic.value.waiting, traffic.value.running
    if waiting < SOMEBODY:
        # Whether requests of the time that was watched waited long, by the server's own clock: over a long time with
        # pauses few wait on average, however long each of them does
        if not is_history(case) and case.run.queue_s.value_or(0.0) >= LONG_S:
            return None
        return Absent(f"while it was watched {running:.1f} requests were answered at a time, and hardly one waited")
    answered = "1 request was" if _few(running) == "1" else f"{_few(running)} requests were"
    words = f"while {answered} answered at a time, {_few(waiting)} waited for a place"
    cost = waited(case)
    long = f", {cost.seconds:.0f} s each" if cost else ""
    return _found(case, f"{words}{long}", (cite_traffic(case, traffic.value, words),))._replace(lost=cost)


def _few(requests: float) -> str:
    """A number of requests as people would say it: a part of one counts only among a few."""
    return f"{requests:.2g}" if requests < MANY else f"{requests:.0f}"


def _by_several(case: Case) -> Found | None:
    """Requests for which there is a slot each, and which do not start together all the same."""
    tried, slots = case.run.at_once, case.runtime.slots.value_or(case.runtime.max_sequences.value_or(0))
    levels = [level for level in tried.value_or(()) if level.requests <= max(1, slots)]
    alone, most = (levels[0], levels[-1]) if levels else (None, None)
    if not isinstance(tried, Known) or not alone or not most or alone.requests != 1 or most.requests == 1:
        return None
    fair = most.requests * alone.first_token_s  # prompts are read one after the other
    extra = most.first_token_s - fair
    if extra < LONG_S or most.first_token_s < fair / MOST:
        return None
    words = f"of {most.requests} requests at once the last waits {most.first_token_s:.1f} s for its first token"
    cited = cite(case, "run.at_once", f"{alone.first_token_s:.2f} s alone", words)
    found = _found(case, f"{words}, though there is a place for each", (cited,))
    return found._replace(lost=Cost(seconds=extra, per="request"))


def _by_time(case: Case) -> Found | Absent | Suspected:
    queue, first = ask_for(case, "run.queue_s", SHOW), case.run.time_to_first_token_s.value_or(0)
    if queue < LONG_S or (first and queue < MOST * first):
        return Absent(f"a request waits {queue:.2f} s for its turn")
    if is_history(case):
        words = f"since it started a request waited {queue:.1f} s for its turn on average, and none waits now"
        return Suspected(words, "who waits while it is slow", SHOW)
    found = _found(
        case,
        f"a request waits {queue:.1f} s for its turn",
        (cite(case, "run.queue_s", f"{first:.2f} s to the first token" if first else None),),
    )
    return found._replace(lost=Cost(seconds=queue, per="request"))


def _by_count(case: Case) -> Found | Absent | Suspected | None:
    waiting = ask_for(case, "runtime.deferred_requests", SHOW)
    if not waiting:
        return None if _waited_long(case) else Absent("no request waits")
    slots = case.runtime.slots.value_or(case.runtime.running_requests.value_or(0))
    words = f"{waiting} requests wait" + (f" while {slots} are answered" if slots else "")
    if is_report(case) or (slots and waiting >= slots):
        return _found(case, words, (cite(case, "runtime.deferred_requests"),))
    return Suspected(words, "run.queue_s", SHOW)


def _by_words(case: Case) -> Found | None:
    said = [r for r in remarks_on(case, Topic.QUEUED) if not _MODELS.search(r.text)]
    if not said or remarks_on(case, Topic.RELOADS) or names_phase(case, "load", "prefill"):
        return None
    return _found(case, f"requests wait for their turn: {said[0].text}", cite_remarks(case, said))


def _by_nobody(case: Case) -> Absent | None:
    idle = nobody_else(case) and not _waited_long(case)
    return Absent("nobody else asks it: all of its places are free") if idle else None


def _waited_long(case: Case) -> bool:
    """Whether requests did wait before anybody looked."""
    return is_history(case) and case.run.queue_s.value_or(0.0) >= LONG_S


def _found(case: Case, because: str, evidence: Citations) -> Found:
    """Twice the places where all are taken whose number is set; else more room for what a request holds.

    Where the cache had room all the time, more of it helps nobody.
    """
    most = case.runtime.max_sequences.value_or(case.runtime.slots.value_or(0))
    traffic = case.run.traffic.value if isinstance(case.run.traffic, Known) else None
    running = traffic.running if traffic else case.runtime.running_requests.value_or(0)
    change = Knob.CAPACITY.to(None, "more slots, or a second server")
    if most and running >= TAKEN * most:
        change = Knob.PARALLEL.to(2 * most, "more requests at once, or a second server")
    elif traffic and case.runtime.name.value_or("") in IN_BATCHES:
        pauses = max(1.0, traffic.each_among / running) if running > 0 else 1.0  # they are in the mean that is told
        if isinstance(traffic.cache_used, Known) and traffic.cache_used.value * pauses < ROOM:
            change = Knob.PARALLEL.to(None, "more requests at once where all places are taken, or a second server")
    return Found(because, evidence, remedies=(Remedy(change),))


CAUSE = Cause(
    title="Requests wait for their turn",
    phase="queue",
    needs=(
        (
            "run.traffic",
            "run.queue_s",
            "run.at_once",
            "run.completions",
            "runtime.deferred_requests",
            "account.remarks",
        ),
    ),
    check=check_by(_by_traffic, _by_time, _by_several, _by_count, _by_words, _by_nobody),
    ask=SHOW,
)
