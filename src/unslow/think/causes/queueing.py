"""Most of the time until the first token is spent waiting for a turn.

## Why it is slow
The server is busy with other requests. It answers quickly once it begins; until then a request stands in its queue.

## How to confirm
The server's own time for a prompt is short, the client's time to the first token is long, and the server counts
requests that wait (`requests_deferred`, `num_requests_waiting`, `Waiting: N reqs`).

## How to fix
More capacity: more slots where memory allows, a second server, shorter answers, or fewer background requests.

## Safety
Answers do not change. More slots make each conversation a little slower.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.think.adapt.account import remarks_on
from unslow.think.adapt.experiments import is_report, names_phase
from unslow.think.causes._asking import ask_for
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
from unslow.think.causes._routes import cite_remarks, first_to_decide
from unslow.think.report import Evidence

MOST = 0.5
"""Of the time to the first token."""
LONG_S = 0.5
_MODELS = re.compile(r"(?i)\bmodels\b")
"""Requests for several models wait for one another to be loaded: that is no queue."""
SHOW = "while it is slow: `curl -s localhost:8080/metrics | grep -E 'deferred|waiting|running|processing'`"


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the time in the queue against the time to the first token; else count who waits."""
    return first_to_decide(case, _by_time, _by_count, _by_words)


def _by_time(case: Case) -> Found | Absent:
    queue, first = ask_for(case, "run.queue_s", SHOW), case.run.time_to_first_token_s.value_or(0)
    if queue < LONG_S or (first and queue < MOST * first):
        return Absent(f"a request waits {queue:.2f} s for its turn")
    return _found(f"a request waits {queue:.1f} s for its turn", (cite(case, "run.queue_s", _of(first)),))


def _by_count(case: Case) -> Found | Absent | Suspected:
    waiting = ask_for(case, "runtime.deferred_requests", SHOW)
    if not waiting:
        return Absent("no request waits")
    slots = case.runtime.slots.value_or(case.runtime.running_requests.value_or(0))
    words = f"{waiting} requests wait" + (f" while {slots} are answered" if slots else "")
    if is_report(case) or (slots and waiting >= slots):
        return _found(words, (cite(case, "runtime.deferred_requests"),))
    return Suspected(words, "run.queue_s", SHOW)


def _by_words(case: Case) -> Found | None:
    said = [r for r in remarks_on(case, Topic.QUEUED) if not _MODELS.search(r.text)]
    if not said or remarks_on(case, Topic.RELOADS) or names_phase(case, "load", "prefill"):
        return None
    return _found(f"requests wait for their turn: {said[0].text}", cite_remarks(case, said))


def _of(first_s: float) -> str | None:
    return f"{first_s:.2f} s to the first token" if first_s else None


def _found(because: str, evidence: tuple[Evidence, ...]) -> Found:
    return Found(because, evidence, remedies=(Remedy(Knob.CAPACITY.to(None, "more slots, or a second server")),))


CAUSE = Cause(
    title="Requests wait for their turn",
    phase="queue",
    needs=(("run.queue_s", "runtime.deferred_requests", "account.remarks"),),
    check=check,
    ask=SHOW,
)
