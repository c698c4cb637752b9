"""Several people ask at once, and the GPU answers them one after the other.

## Why it is slow
One stream of tokens uses the GPU's bandwidth for one conversation. Computed together, eight conversations read the
weights once, and each is nearly as fast as alone. With one slot, the others wait.

## How to confirm
The runtime has one slot (`--parallel 1`, `OLLAMA_NUM_PARALLEL=1`, `--max-num-seqs 1`) while requests wait for it.

## How to fix
Allow as many slots as there are people (`-np 4`), with the context that each of them needs; or a runtime made for many
(vLLM, SGLang).

## Safety
Answers do not change. Each slot needs its own part of the KV cache.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.account import remarks_on
from unslow.think.causes._asking import ask_for
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, cite
from unslow.think.causes._routes import cite_remarks

USUAL = 4
SHOW = "while people wait: `curl -s localhost:8080/metrics | grep -E 'requests_(processing|deferred)'`"


def check(case: Case) -> Found | Absent:
    """Look for requests that wait beside a runtime that serves one at a time."""
    path = "runtime.slots" if isinstance(case.runtime.slots, Known) else "runtime.max_sequences"
    slots = ask_for(case, path, SHOW)
    if slots > 1:
        return Absent(f"up to {slots} requests may be answered at once")
    said = remarks_on(case, Topic.QUEUED)
    waiting = case.runtime.deferred_requests.value_or(0)
    if not said and not waiting:
        ask_for(case, "runtime.deferred_requests", SHOW)
        return Absent("one request at a time, and nobody waits")
    who = f"{waiting} requests wait" if waiting else said[0].text
    return Found(
        because=f"the runtime answers one request at a time: {who}",
        evidence=(
            cite(case, path),
            *((cite(case, "runtime.deferred_requests"),) if waiting else cite_remarks(case, said)),
        ),
        remedies=(
            Remedy(
                Knob.PARALLEL.to(max(USUAL, waiting + 1), "conversations that are computed together share every read"),
                None,
                "each slot takes its part of the KV cache",
            ),
        ),
    )


CAUSE = Cause(
    title="The GPU serves one request at a time",
    phase="queue",
    needs=(("runtime.slots", "runtime.max_sequences"), ("runtime.deferred_requests", "account.remarks")),
    check=check,
    explains=("queueing",),
    gpu_only=True,
    ask=SHOW,
)
