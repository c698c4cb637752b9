"""Most of the time to first token is spent waiting in the queue.

## Why it is slow
The server is busy with other requests. It is quick once it starts on a request; until then the request waits in its
queue.

## How to confirm
The server's own prefill time is short, the client's time to first token is long, and the server reports waiting
requests (llama.cpp `requests_deferred`, vLLM `num_requests_waiting`, `Waiting: N reqs`, SGLang `num_queue_reqs`).

## What it is not
Concurrent requests that all start at once, however many there are. Nor a long prompt: that request is in prefill, not
in the queue.

## How to fix
Add capacity. llama.cpp: more slots if memory allows (`-np 8 -kvu`); Ollama: `OLLAMA_NUM_PARALLEL`; LM Studio:
`--parallel`; vLLM: `--max-num-seqs`; SGLang: `--max-running-requests`; Transformers: a server that batches. Otherwise
a second server, shorter answers, or fewer background requests.

## Safety
Answers do not change. More slots make each conversation slightly slower.
"""

import math
import re

from unslow.facts.account import Topic
from unslow.facts.knob import Change, Knob
from unslow.facts.runtime import IN_BATCHES
from unslow.facts.values import first_known
from unslow.think.case.view import CaseView
from unslow.think.case.waits import SOMEBODY
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding
from unslow.think.report import Cost

MOST = 0.5  # Of the time to first token
LONG_S = 0.5  # A shorter wait is not noticed next to prefill
SMALL = 0.1  # Of a request's time: a shorter wait, however many share it, is not what makes it slow
MANY = 10  # Requests: from here on a fraction of one is noise
TAKEN = 0.9  # Of the slots: samples of a full server catch one free now and then
ROOM = 0.7  # Of the KV cache: if less is in use on average, requests are not waiting for cache
SHOW = "while it is slow: {queue}"
_MODELS = re.compile(r"(?i)\bmodels\b")
"""Requests for several models wait for each other's models to load, which is not a queue."""


def watched_traffic(case: CaseView) -> Found | Absent | Suspected | None:
    """How many requests ran and how many waited while the server was watched."""
    traffic = case.run.traffic.get()
    if traffic is None or not traffic.counts_waiting:
        return None
    if traffic.waiting < SOMEBODY:
        # Over a long window with pauses few requests wait on average, even if each of them waits long
        if (case.run.queue_s.get() or 0.0) >= LONG_S and not case.waits.is_mean_of_past:
            return None
        return Absent(f"{traffic.running:.1f} requests ran at a time while it was watched, and almost none waited")
    running, waiting = (f"{n:.2g}" if n < MANY else f"{n:.0f}" for n in (traffic.running, traffic.waiting))
    words, cost = f"on average {running} requests ran while {waiting} waited", case.waits.turn_cost
    each = f", {cost.seconds:.{0 if cost.seconds >= MANY else 1}f} s each" if cost else ""
    # Little's law: of its time, a request spends as much waiting as there are requests that wait
    share, longest = traffic.waiting / (traffic.running + traffic.waiting), case.waits.longest_queue_s
    if share < SMALL or (longest is not None and longest < LONG_S and share < MOST):
        return Absent(f"{words}{each}: about {share:.0%} of a request's time")
    if cost is None and share < MOST:  # many requests may wait for a moment each
        return Suspected(f"{words}: about {share:.0%} of a request's time", "run.queue_s", SHOW)
    return finding(
        case, f"{words}{each}", case.waits.cite_traffic(traffic, words), fixes=[more_capacity(case)], lost=cost
    )


def queue_time(case: CaseView) -> Found | Absent | Suspected:
    """How long a request waits in the queue, against the time to first token."""
    queue, first = case.ask_for("run.queue_s", SHOW), case.run.time_to_first_token_s.get()
    if queue < LONG_S or (first and queue < MOST * first):
        return Absent(f"a request waits only {queue:.2f} s in the queue")
    if case.waits.is_mean_of_past:
        words = f"since the server started, requests have waited {queue:.1f} s on average; none is waiting now"
        return Suspected(words, "how many requests wait while it is slow", SHOW)
    return finding(
        case,
        f"a request waits {queue:.1f} s in the queue",
        case.cite("run.queue_s", f"{first:.2f} s to the first token" if first else None),
        fixes=[more_capacity(case)],
        lost=Cost(seconds=queue, per="request"),
    )


def concurrent_requests(case: CaseView) -> Found | None:
    """Time to first token of several requests at once, each with a slot, against one alone."""
    slots = first_known(case.runtime.scheduling.slots, case.runtime.scheduling.max_sequences).get()
    levels = [level for level in case.run.at_once.get() or () if slots and level.requests <= slots]
    if not levels or levels[0].requests != 1 or levels[-1].requests == 1:
        return None
    alone, most = levels[0], levels[-1]
    fair = most.requests * alone.first_token_s  # prompts are processed one after the other
    extra = most.first_token_s - fair
    if extra < LONG_S or most.first_token_s < fair / MOST:
        return None
    words = f"with {most.requests} requests at once, the last gets its first token after {most.first_token_s:.1f} s"
    return finding(
        case,
        f"{words}, although each has a slot",
        case.cite("run.at_once", f"{alone.first_token_s:.2f} s alone", words),
        fixes=[more_capacity(case)],
        lost=Cost(seconds=extra, per="request"),
    )


def deferred_requests(case: CaseView) -> Found | Absent | Suspected | None:
    """The server's own count of waiting requests."""
    waiting = case.ask_for("runtime.scheduling.deferred_requests", SHOW)
    if not waiting:
        return None if _waited_before(case) else Absent("no request is waiting")
    slots = first_known(case.runtime.scheduling.slots, case.runtime.scheduling.running_requests).get()
    words = f"{waiting} requests are waiting" + (f" while {slots} run" if slots else "")
    if case.narrative.is_report or (slots and waiting >= slots):
        return finding(case, words, "runtime.scheduling.deferred_requests", fixes=[more_capacity(case)])
    return Suspected(words, "run.queue_s", SHOW)


def said_by_person(case: CaseView) -> Found | None:
    """The report says that requests wait."""
    said = [r for r in case.narrative.remarks_on(Topic.QUEUED) if not _MODELS.search(r.text)]
    if not said or case.narrative.remarks_on(Topic.RELOADS) or case.narrative.names_phase("load", "prefill"):
        return None
    words = f"requests wait in the queue: {said[0].text}"
    return finding(case, words, case.narrative.cite_remarks(said), fixes=[more_capacity(case)])


def idle_server(case: CaseView) -> Absent | None:
    """The server was idle, and no other client used it during the measurement."""
    is_idle = case.waits.is_alone and not _waited_before(case)
    return Absent("no other client uses it: all slots are free") if is_idle else None


def _waited_before(case: CaseView) -> bool:
    return case.waits.is_mean_of_past and (case.run.queue_s.get() or 0.0) >= LONG_S


def more_capacity(case: CaseView) -> Change:
    """Slots for all, or twice as many, where all are taken; else more cache, unless it had room all the time."""
    slots = first_known(case.runtime.scheduling.max_sequences, case.runtime.scheduling.slots).get()
    running, traffic = case.waits.requests_running, case.run.traffic.get()
    if slots and running is not None and running >= TAKEN * slots:
        # An engine that pages its cache reserves nothing for a slot, so that those who wait can have one too
        present = traffic.running + traffic.waiting if traffic and case.engine.runs_paged else 0.0
        present /= case.gpus.model_copies
        enough = max(2 * slots, 2 ** math.ceil(math.log2(max(1.0, present))))
        return Knob.PARALLEL.to(enough, "more requests at once, or a second server")
    used = traffic.cache_used.get() if traffic and case.runtime.name.get() in IN_BATCHES else None
    if traffic and used is not None:
        # The mean covers pauses too: while requests ran, more of the cache was in use
        pauses = max(1.0, traffic.each_among / traffic.running) if traffic.running > 0 else 1.0
        if used * pauses < ROOM:
            return Knob.PARALLEL.to(None, "more requests at once if all slots are taken, or a second server")
    return Knob.CAPACITY.to(None, "more slots, or a second server")


CAUSE = Cause(
    title="Requests wait in the queue",
    phase="queue",
    needs=all_of(
        "run.traffic or run.queue_s or run.at_once or run.completions or runtime.scheduling.deferred_requests or "
        "account.remarks"
    ),
    routes=(
        Route("measured", watched_traffic),
        Route("measured", queue_time),
        Route("measured", concurrent_requests),
        Route("log", deferred_requests),
        Route("told", said_by_person),
        Route("log", idle_server),
    ),
    ask=SHOW,
)
