"""Several clients ask at once, and the GPU serves them one after the other.

## Why it is slow
One stream of tokens uses the GPU's memory bandwidth for one conversation. In a batch, eight conversations read the
weights once, and each is nearly as fast as alone. With one slot, the others wait.

## How to confirm
The runtime has one slot (`--parallel 1`, `OLLAMA_NUM_PARALLEL=1`, `--max-num-seqs 1`) while requests wait for it, and
their combined throughput is far below what the GPU gives to a batch.

Guides say to raise the number of sequences where a GPU is not busy, but that helps only where several clients ask at
once.

## What it is not
A single user, who loses nothing: do not add slots for one. Nor a GPU that is not busy while no request waits.

## How to fix
As many slots as there are users, with the context that each of them needs. llama.cpp: `-np 4 -kvu` (or drop `-np`:
four slots that share one context); Ollama: `OLLAMA_NUM_PARALLEL=4`; LM Studio: `lms load MODEL --parallel 4`; vLLM:
drop `--max-num-seqs 1`; Transformers: a batch of prompts; or a runtime made for many users (vLLM, SGLang).

## Safety
Answers do not change. Each slot needs its own part of the KV cache.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.narrative import WORTH_COMPARING
from unslow.think.case.view import CaseView
from unslow.think.case.waits import SOMEBODY
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Route, all_of, finding

USUAL = 4  # Users, where they were not counted: llama.cpp's default number of slots
SHOW = "while requests wait: {queue}"


def number_of_slots(case: CaseView) -> Absent | None:
    """More than one slot: the runtime batches."""
    slots = case.need(_slots_path(case))
    return Absent(f"up to {slots} requests run at once") if slots > 1 else None


def nobody_waits(case: CaseView) -> Absent | None:
    """No request waits for the slot: as watched, as the server counts, as the report says."""
    if _waiting_requests(case)[1]:
        return None
    if case.waits.is_alone:
        return Absent("no other client uses it")
    if not case.waits.counts_waiting:
        case.ask_for("runtime.scheduling.deferred_requests", SHOW)
    return Absent("one request at a time, and none waits")


def throughput_of_batch(case: CaseView) -> Found | Absent | None:
    """The throughput of requests that wait for one slot, against that of a batch of them."""
    waiting, shown_by = _waiting_requests(case)
    if not shown_by:
        return None
    if case.engine.runs_ggml is not False and not case.gpus.visible_to_runtime and not case.narrative.is_report:
        case.ask_for("machine.gpus", "{gpu_list}")  # a CPU gains little by batching
    if case.runtime.placement.gpu_layers.get() == 0 and not case.vram.buffers("model", on_gpu=True):
        return Absent("no layers are on the GPU, which is another cause")
    # How many want an answer at once: as seen, else the usual number
    traffic, deferred = case.run.traffic.get(), case.runtime.scheduling.deferred_requests.get()
    watched = traffic.waiting + traffic.running if traffic else 0.0
    seen = round(max(watched, deferred + 1 if deferred else 0))
    users = max(2, seen) if seen else USUAL
    # With one slot, all requests together get what one gets
    now = (traffic.tokens_per_s.get() if traffic else None) or case.speed.measured_rate.get()
    together = case.sharing.expected_together(users, case.speed.depth) if now else None
    gain, batch = None, ""
    if now and together is not None:
        gain = together / now
        batch = f"; a batch of {users} would reach {together:.0f} tok/s in total instead of {now:.0f}"
    if gain is not None and gain < WORTH_COMPARING:
        return Absent(f"a batch of {users} would have no higher throughput than one request after the other")
    change = Knob.PARALLEL.to(users, "requests in one batch share every read of the weights")
    return finding(
        case,
        f"the runtime serves one request at a time: {waiting}{batch}",
        _slots_path(case),
        shown_by,
        fixes=[Remedy(change, None, "each slot takes its part of the KV cache")],
        speedup=gain,
        lost=case.waits.turn_cost,
    )


def _slots_path(case: CaseView) -> str:
    is_known = isinstance(case.runtime.scheduling.slots, Known)
    return "runtime.scheduling.slots" if is_known else "runtime.scheduling.max_sequences"


def _waiting_requests(case: CaseView) -> tuple[str, Citations]:
    """How many wait, in words, and what shows it; empty where none does."""
    traffic, deferred = case.run.traffic.get(), case.runtime.scheduling.deferred_requests.get()
    if traffic and traffic.waiting >= SOMEBODY:
        words = f"{traffic.waiting:.1f} requests waited on average while it was watched"
        return words, (case.waits.cite_traffic(traffic, words),)
    if deferred:
        words = f"{deferred} request{' waits' if deferred == 1 else 's wait'}"
        return words, (case.cite("runtime.scheduling.deferred_requests"),)
    said = case.narrative.remarks_on(Topic.QUEUED)
    return (said[0].text, case.narrative.cite_remarks(said)) if said else ("", ())


CAUSE = Cause(
    title="The GPU serves one request at a time",
    phase="queue",
    needs=all_of(
        "runtime.scheduling.slots or runtime.scheduling.max_sequences",
        "run.traffic or run.completions or runtime.scheduling.deferred_requests or account.remarks",
    ),
    routes=(Route("counted", number_of_slots), Route("log", nobody_waits), Route("counted", throughput_of_batch)),
    explains=("queueing",),
    gpu_only=True,
    on_gpu=True,
    ask=SHOW,
)
