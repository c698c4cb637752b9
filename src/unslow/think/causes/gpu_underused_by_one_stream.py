"""Several people ask at once, and the GPU answers them one after the other.

## Why it is slow
One stream of tokens uses the GPU's bandwidth for one conversation. Computed together, eight conversations read the
weights once, and each is nearly as fast as alone. With one slot, the others wait.

## How to confirm
The runtime has one slot (`--parallel 1`, `OLLAMA_NUM_PARALLEL=1`, `--max-num-seqs 1`) while requests wait for it, and
all of them together get far fewer tokens than the GPU gives to several at once.

Guides say to raise the number of sequences where a GPU is not busy, but that helps only where several ask at once.

## What it is not
A single user, who loses nothing: do not add slots for one. Nor a GPU that is not busy while nobody waits.

## How to fix
As many slots as there are people, with the context that each of them needs. llama.cpp: `-np 4 -kvu` (or drop `-np`:
four slots that share one context); Ollama: `OLLAMA_NUM_PARALLEL=4`; LM Studio: `lms load MODEL --parallel 4`; vLLM:
drop `--max-num-seqs 1`; Transformers: a batch of prompts; or a runtime made for many (vLLM, SGLang).

## Safety
Answers do not change. Each slot needs its own part of the KV cache.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.narrative import WORTH_COMPARING, is_report, remarks_on
from unslow.think.case.prediction import measured_rate
from unslow.think.case.runtime import runs_ggml
from unslow.think.case.slowness import expected_together
from unslow.think.case.vram import buffers_of, runtime_sees_gpu
from unslow.think.case.waits import SOMEBODY
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy
from unslow.think.causes._evidence import cite_traffic, counts_waiting, nobody_else, waited
from unslow.think.causes._facts import ask_for, cite, cite_remarks

USUAL = 4  # People, where nobody counted them: the slots that llama.cpp has by itself
SHOW = "while people wait: {queue}"


_WHO_WAITS = ("run.traffic", "run.completions", "runtime.deferred_requests", "account.remarks")


def check(case: Case) -> Found | Absent:
    """Look for requests that wait beside a runtime that serves one at a time."""
    path = "runtime.slots" if isinstance(case.runtime.slots, Known) else "runtime.max_sequences"
    slots = ask_for(case, path, SHOW)
    if slots > 1:
        return Absent(f"up to {slots} requests may be answered at once")
    who, evidence = _waiting(case)
    if not evidence:
        if nobody_else(case):
            return Absent("nobody else asks it")
        if not counts_waiting(case):
            ask_for(case, "runtime.deferred_requests", SHOW)
        return Absent("one request at a time, and nobody waits")
    if runs_ggml(case) is not False and not runtime_sees_gpu(case) and not is_report(case):
        ask_for(case, "machine.gpus", "{gpu_list}")  # one that answers from a CPU gains little by it
    if case.runtime.gpu_layers.value_or(1) == 0 and not buffers_of(case, "model", on_gpu=True):
        return Absent("no layer is on the GPU, which is another cause")
    # How many want an answer at once: those who were seen; where somebody only tells of them, as many as usual
    traffic, deferred = case.run.traffic, case.runtime.deferred_requests.value_or(0)
    watched = traffic.value.waiting + traffic.value.running if isinstance(traffic, Known) else 0.0
    seen = round(max(watched, deferred + 1 if deferred else 0))
    users = max(2, seen) if seen else USUAL
    # How many times as many tokens so many get together by the batching curve as one after the other get now
    rate, told = measured_rate(case), traffic.value.tokens_per_s.value_or(0.0) if isinstance(traffic, Known) else 0.0
    now = told or (rate.value if isinstance(rate, Known) else 0.0)  # with one slot, all requests get what one gets
    together = expected_together(case, users, case.run.depth_tokens.value_or(0)) if now else None
    gain, curve = None, ""
    if together is not None:
        gain, each = together / now, f"{together:.0f} tokens per second together instead of {now:.0f}"
        curve = f", and {users} at once would get {each}"
    if gain is not None and gain < WORTH_COMPARING:
        return Absent(f"{users} at once would get no more tokens together than one after the other")
    change = Knob.PARALLEL.to(users, "conversations that are computed together share every read")
    return Found(
        because=f"the runtime answers one request at a time: {who}{curve}",
        evidence=(cite(case, path), *evidence),
        remedies=(Remedy(change, None, "each slot takes its part of the KV cache"),),
        speedup=gain,
        lost=waited(case),
    )


def _waiting(case: Case) -> tuple[str, Citations]:
    """Who waits, in words, and what shows it; nothing where nobody does."""
    traffic, deferred = case.run.traffic, case.runtime.deferred_requests.value_or(0)
    if isinstance(traffic, Known) and traffic.value.waiting >= SOMEBODY:
        words = f"{traffic.value.waiting:.1f} requests waited on average while it was watched"
        return words, (cite_traffic(case, traffic.value, words),)
    if deferred:
        return f"{deferred} requests wait", (cite(case, "runtime.deferred_requests"),)
    said = remarks_on(case, Topic.QUEUED)
    return (said[0].text, cite_remarks(case, said)) if said else ("", ())


CAUSE = Cause(
    title="The GPU serves one request at a time",
    phase="queue",
    needs=(("runtime.slots", "runtime.max_sequences"), _WHO_WAITS),
    check=check,
    explains=("queueing",),
    gpu_only=True,
    on_gpu=True,
    ask=SHOW,
)
