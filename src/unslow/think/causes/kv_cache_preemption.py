"""The KV cache is full: requests are preempted and recomputed, or wait for room.

## Why it is slow
A server with a paged KV cache admits more conversations than it can hold. When they grow and no block is left, it
preempts one: its keys and values are dropped, and its whole text is computed again later. Everyone's speed collapses
exactly when the server has many requests.

## How to confirm
vLLM logs `GPU KV cache usage` near 100 % with requests waiting, and `vllm:num_preemptions_total` grows; SGLang counts
`sglang:num_retracted_reqs`.

## What it is not
A counter that grew weeks ago, which says nothing about now; a full cache with no request waiting; one long
conversation in a cache of its own.

## How to fix
More room: vLLM without `--num-gpu-blocks-override`, `--gpu-memory-utilization 0.95`, `--kv-cache-dtype fp8`, weights in
FP8; SGLang `--mem-fraction-static`, `--kv-cache-dtype fp8_e5m2`. Fewer requests at once: `--max-num-seqs`,
`--max-running-requests`. A second GPU. A shorter `--max-model-len` frees nothing: blocks are allocated as requests
grow. llama.cpp: a larger `-c` for its shared cache, or `-ctk q8_0 -ctv q8_0`.
Ollama and LM Studio give each slot a cache of its own, and Transformers has no such queue.

## Safety
An FP8 cache changes answers slightly. With fewer requests at once some wait in the queue, which is faster overall.
"""

import statistics

from unslow.facts.account import Topic
from unslow.facts.knob import Change, Knob
from unslow.facts.values import Known
from unslow.think.case.view import CaseView
from unslow.think.case.waits import SOMEBODY
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding
from unslow.think.physics.chip import HALF, type_class

FULL = 0.9  # Of the cache: the next request no longer finds its blocks
SPARED, WORTH = 0.06, 0.05  # Of a GPU's memory: what stays free for buffers and the driver, and what is worth a restart
MOST = {"vLLM": 0.92}  # The share that an engine takes at most by default; others do not count their buffers in it
MOST_WITHOUT_BUFFERS = 0.88
RARELY = 0.01  # Of the requests: fewer preemptions are not noticed
_NEVER_PREEMPT = ("llama.cpp", "Ollama", "LM Studio", "KoboldCpp", "MLX-LM")
SHOW = "under load: {preemptions}"


def watched_traffic(case: CaseView) -> Found | Absent | None:
    """Preemptions, or requests that wait for a full cache, while the server was watched."""
    traffic = case.run.traffic.get()
    if traffic is None:
        return None
    preempted, used, because = traffic.preemptions.get(), traffic.cache_used.get(), ""
    is_full = used is not None and used >= FULL
    if preempted:
        # Requests in that time by Little's law; 0 where none was timed
        took, present = case.run.request_s.get() or (), traffic.running + traffic.waiting
        requests = traffic.seconds * present / statistics.median(took) if took and min(took) > 0 else 0.0
        if preempted < RARELY * requests:
            were = "was" if preempted == 1 else "were"
            words = f"only {preempted} of about {requests:.0f} requests {were} preempted in {traffic.seconds:.0f} s"
            return Absent(words)
        because = f"{_preemptions(preempted)} in {traffic.seconds:.0f} s: the KV cache was full"
    elif is_full and traffic.waiting >= SOMEBODY:
        because = f"the KV cache was {used:.0%} full while {traffic.waiting:.1f} requests waited on average"
    if because:
        shown_by = case.waits.cite_traffic(traffic, because)
        return finding(case, because, shown_by, fixes=more_cache(case), lost=case.waits.turn_cost)
    # Behind a full cache others may wait where the server does not count them
    if preempted is not None and traffic.running > 0 and (traffic.counts_waiting or not is_full):
        return Absent(f"no preemptions in {traffic.seconds:.0f} s")
    return None


def kind_of_runtime(case: CaseView) -> Absent | None:
    """A runtime that reserves the cache of every slot in advance never preempts."""
    runtime = case.runtime
    counted = isinstance(runtime.scheduling.preemptions, Known) or isinstance(runtime.cache.usage, Known)
    if counted or not case.engine.label.endswith(_NEVER_PREEMPT) or case.narrative.remarks_on(Topic.CACHE_FULL):
        return None
    return Absent(f"{case.engine.label} never preempts requests")


def server_counters(case: CaseView) -> Found | Absent | Suspected:
    """The server's own counters: preemptions, cache usage, waiting and running requests."""
    scheduling, usage = case.runtime.scheduling, case.runtime.cache.usage.get()
    preempted, waiting, running = (
        fact.get() for fact in (scheduling.preemptions, scheduling.deferred_requests, scheduling.running_requests)
    )
    if preempted:
        is_short_now = (usage is not None and usage >= FULL) or waiting
        counter = scheduling.preemptions.source if isinstance(scheduling.preemptions, Known) else ""
        # A counter of a server that may have been up for weeks
        if "/metrics" in counter and isinstance(case.runtime.process.url, Known) and not is_short_now:
            words = f"{_preemptions(preempted)} since the server started"
            return Suspected(words, "how often that happens now", SHOW)
        words = f"{_preemptions(preempted)}: the KV cache was full"
        return finding(case, words, "runtime.scheduling.preemptions", fixes=more_cache(case))
    usage = case.ask_for("runtime.cache.usage", SHOW)
    words = f"the KV cache is {usage:.0%} full"
    if usage < FULL:
        return Absent(words)
    full = case.cite("runtime.cache.usage", f"above {FULL:.0%}")
    if waiting:
        because = f"{words}, and {waiting} requests wait for room"
        return finding(case, because, full, "runtime.scheduling.deferred_requests", fixes=more_cache(case))
    if running is not None and running > 1 and case.narrative.blames("decode"):
        because = f"{words} while {running} requests are growing"
        return finding(case, because, full, "runtime.scheduling.running_requests", fixes=more_cache(case))
    uncounted = isinstance(case.run.traffic, Known) and not case.waits.counts_waiting
    if preempted is not None and not uncounted:
        return Absent(f"{words}, without preemptions")
    return Suspected(words, "how many requests waited" if uncounted else "runtime.scheduling.preemptions", SHOW)


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """The report tells of preemptions; a cache that is said to be full may still serve every request."""
    said = case.narrative.remarks_on(Topic.CACHE_FULL)
    preempted = [r for r in said if "preempt" in r.text.lower()]
    if preempted:
        words = f"requests are preempted: {preempted[0].text}"
        return finding(case, words, case.narrative.cite_remarks(preempted), fixes=more_cache(case))
    return Suspected(said[0].text, "runtime.scheduling.preemptions", SHOW) if said else None


def _preemptions(count: int) -> str:
    return f"{count:,} preemption{'' if count == 1 else 's'}"


def more_cache(case: CaseView) -> list[Remedy | Change]:
    """Memory that was left out, smaller keys, values and weights, fewer requests at once."""
    fixes = list[Remedy | Change]()
    blocks, tokens = case.runtime.cache.blocks_set.get(), case.runtime.cache.capacity_tokens.get()
    if blocks:
        holds = f" ({tokens:,} tokens)" if tokens else ""
        why = f"the cache is limited to {blocks:,} blocks{holds}; by default it takes all memory that is left"
        fixes.append(Knob.CAPACITY.to("all blocks", why))
    else:  # a set number of blocks stays as it is, however much memory is left and however small they are
        fixes += _larger_share_of_vram(case)
        fixes.append(Remedy(Knob.KV_CACHE_TYPE.to("fp8", "half the bytes per token"), None, "answers change slightly"))
    quant = case.model.quant.get()
    if not blocks and case.engine.runs_paged and quant is not None and type_class(quant) == HALF:
        smaller = Knob.QUANT.to("fp8", "half the bytes of weights leave more room for the cache")
        fixes.append(Remedy(smaller, None, "answers change"))
    # As many requests as the cache holds now
    running, why = case.waits.requests_running, "the others wait in the queue instead of being computed twice"
    if running is not None and int(running) > 1:
        return [*fixes, Knob.PARALLEL.to(max(1, int(FULL * int(running))), why)]
    return [*fixes, Knob.CAPACITY.to(None, f"more memory for the cache, or fewer requests at once: {why}")]


def _larger_share_of_vram(case: CaseView) -> list[Change]:
    """Of the GPUs' memory, where a setting leaves much of it out and no other process has it."""
    share, gpus = case.runtime.memory.gpu_memory_fraction.get(), case.gpus.in_use
    sizes = [(gpu.vram_free_bytes.get(), gpu.vram_total_bytes.get()) for gpu in gpus]
    free = [left / total for left, total in sizes if left is not None and total]
    if not case.engine.runs_paged or share is None or not free or len(free) < len(gpus):
        return []
    larger = round(min(MOST.get(case.engine.label, MOST_WITHOUT_BUFFERS), share + min(free) - SPARED), 2)
    why = f"{min(free):.0%} of the GPU's memory is free, and the cache can use it"
    return [Knob.FIT_MARGIN.to(larger, why)] if larger >= share + WORTH else []


CAUSE = Cause(
    title="The KV cache is full",
    phase="queue",
    needs=all_of(
        "run.traffic or runtime.scheduling.preemptions or runtime.cache.usage or runtime.name or account.remarks"
    ),
    routes=(
        Route("measured", watched_traffic),
        Route("counted", kind_of_runtime),
        Route("log", server_counters),
        Route("told", said_by_person),
    ),
    explains=("queueing", "gpu_underused_by_one_stream"),
    ask=SHOW,
)
