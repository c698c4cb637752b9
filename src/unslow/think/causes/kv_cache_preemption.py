"""The KV cache is full: requests are thrown out and computed again, or must wait for room.

## Why it is slow
A server with paged caches takes in more conversations than it can hold. When they grow and no page is left, it
preempts one: its keys and values are dropped, and its whole text is computed again later. The speed of all collapses
just when many are served.

## How to confirm
vLLM logs `GPU KV cache usage` near 100 % with requests waiting, and `vllm:num_preemptions_total` grows; SGLang counts
`sglang:num_retracted_reqs`.

## What it is not
A counter that grew weeks ago, which says nothing of now; a full cache in which nobody waits; one long conversation in
a cache of its own.

## How to fix
More room: vLLM without `--num-gpu-blocks-override`, `--gpu-memory-utilization 0.95`, `--kv-cache-dtype fp8`, weights in
FP8; SGLang `--mem-fraction-static`, `--kv-cache-dtype fp8_e5m2`. Fewer at once: `--max-num-seqs`,
`--max-running-requests`. A second GPU. A shorter `--max-model-len` frees nothing: pages are handed out as requests
grow. llama.cpp: a larger `-c` for its shared cache, or `-ctk q8_0 -ctv q8_0`.
Ollama and LM Studio give each slot a cache of its own, and Transformers has no such queue.

## Safety
An FP8 cache changes answers slightly. Fewer at once makes some wait at the door, which is quicker for all.
"""

import statistics

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.narrative import blames, remarks_on
from unslow.think.case.runtime import runs_paged
from unslow.think.case.vram import gpus_used
from unslow.think.case.waits import SOMEBODY
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, check_by
from unslow.think.causes._evidence import cite_traffic, counts_waiting, waited
from unslow.think.causes._facts import ask_for, cite, cite_remarks
from unslow.think.physics.weight_types import HALF, type_class

FULL = 0.9  # Of the cache: the next request no longer finds its blocks
SPARED, WORTH = 0.06, 0.05
"""Of a GPU's memory: what stays free for buffers and the driver, and what is worth a restart."""
MOST = {"vLLM": 0.92}  # The share that an engine takes at most by itself; others do not count their buffers in it
MOST_WITHOUT_BUFFERS = 0.88
RARELY = 0.01  # Of the requests: what so few of them lose, nobody notices
_KEEP = ("llama.cpp", "Ollama", "LM Studio", "KoboldCpp", "MLX-LM")
SHOW = "under load: {preemptions}"


def _by_kind(case: Case) -> Absent | None:
    """A runtime that gives every conversation its place before it begins throws none out."""
    runtime = case.runtime
    counted = isinstance(runtime.preemptions, Known) or isinstance(runtime.kv_usage, Known)
    if counted or not runtime.name.value_or("").endswith(_KEEP) or remarks_on(case, Topic.CACHE_FULL):
        return None
    return Absent(f"{runtime.name.value_or('')} throws no request out of its cache")


def _by_traffic(case: Case) -> Found | Absent | None:
    """What happened while it was watched: requests thrown out, or waiting before a full cache."""
    traffic = case.run.traffic
    if not isinstance(traffic, Known):
        return None
    seen, used = traffic.value, traffic.value.cache_used.value_or(0.0)
    # How many were answered while it was watched, by Little's law; 0 where nobody timed them
    took = case.run.request_s.value_or(())
    timed = bool(took) and min(took) > 0
    asked = seen.seconds * (seen.running + seen.waiting) / statistics.median(took) if timed else 0.0
    thrown = seen.preemptions.value_or(0)
    if thrown and asked and thrown < RARELY * asked:
        were = "was" if thrown == 1 else "were"
        return Absent(f"{thrown} of some {asked:.0f} requests in {seen.seconds:.0f} s {were} preempted")
    if thrown:
        words = f"{_preemptions(thrown)} in {seen.seconds:.0f} s: the KV cache was full"
        return _found(case, words, (cite_traffic(case, traffic.value, words),))._replace(lost=waited(case))
    if used >= FULL and seen.waiting >= SOMEBODY:
        words = f"{used:.0%} of the KV cache was in use while {seen.waiting:.1f} requests waited on average"
        return _found(case, words, (cite_traffic(case, traffic.value, words),))._replace(lost=waited(case))
    room = used < FULL or seen.counts_waiting  # else others may wait before it
    if room and isinstance(seen.preemptions, Known) and seen.running > 0:
        return Absent(f"no request was preempted in {seen.seconds:.0f} s")
    return None


def _by_words(case: Case) -> Found | Suspected | None:
    """Whoever saw preemptions saw the cause; a cache that is said to be full may still serve all."""
    said = remarks_on(case, Topic.CACHE_FULL)
    preempted = [r for r in said if "preempt" in r.text.lower()]
    if preempted:
        return _found(case, f"requests are preempted: {preempted[0].text}", cite_remarks(case, preempted))
    return Suspected(said[0].text, "runtime.preemptions", SHOW) if said else None


def _by_counters(case: Case) -> Found | Absent | Suspected:
    counted, preempted = case.runtime.preemptions, case.runtime.preemptions.value_or(0)
    # The count of a server that may have run for weeks, and the cache is not short now: nearly full, or requests wait
    is_total = isinstance(counted, Known) and isinstance(case.runtime.url, Known) and "/metrics" in counted.source
    is_pressed = case.runtime.kv_usage.value_or(0.0) >= FULL or case.runtime.deferred_requests.value_or(0) > 0
    if preempted and is_total and not is_pressed:
        return Suspected(f"{_preemptions(preempted)} since the server started", "how often that happens now", SHOW)
    if preempted:
        words = f"{_preemptions(preempted)}: the KV cache was full"
        return _found(case, words, (cite(case, "runtime.preemptions"),))
    usage = ask_for(case, "runtime.kv_usage", SHOW)
    if usage < FULL:
        return Absent(f"{usage:.0%} of the KV cache is in use")
    waiting, running = case.runtime.deferred_requests.value_or(0), case.runtime.running_requests.value_or(0)
    full = cite(case, "runtime.kv_usage", f"above {FULL:.0%}")
    if waiting:
        words = f"{usage:.0%} of the KV cache is in use, and {waiting} requests wait for room"
        return _found(case, words, (full, cite(case, "runtime.deferred_requests")))
    words = f"{usage:.0%} of the KV cache is in use"
    if running > 1 and blames(case, "decode"):
        growing = f"{words} while {running} requests grow in it"
        return _found(case, growing, (full, cite(case, "runtime.running_requests")))
    uncounted = isinstance(case.run.traffic, Known) and not counts_waiting(case)
    if isinstance(case.runtime.preemptions, Known) and not uncounted:
        return Absent(f"{words}, and no request was preempted")
    return Suspected(words, "how many requests waited" if uncounted else "runtime.preemptions", SHOW)


def _preemptions(count: int) -> str:
    return f"{count:,} {'request was' if count == 1 else 'requests were'} preempted"


def _found(case: Case, because: str, evidence: Citations) -> Found:
    remedies = []
    blocks, tokens = case.runtime.kv_blocks_set.value_or(0), case.runtime.kv_capacity_tokens.value_or(0)
    if blocks:
        # A number of blocks that was set by hand: the engine counts by itself how many find room
        holds = f", {tokens:,} tokens" if tokens else ""
        why = f"the cache was told to have {blocks:,} blocks{holds}: by itself it takes all memory that is left"
        remedies.append(Remedy(Knob.CAPACITY.to("all blocks", why)))
    remedies += _unused_memory(case)
    halved = Knob.KV_CACHE_TYPE.to("fp8", "half the bytes for each token")
    remedies.append(Remedy(halved, None, "answers change slightly"))
    if runs_paged(case) and type_class(case.model.quant.value_or("?")) == HALF:
        smaller = Knob.QUANT.to("fp8", "half the bytes of weights leave room for the cache")
        remedies.append(Remedy(smaller, None, "answers change"))
    # As many requests as the cache holds now
    traffic, why = case.run.traffic, "the others wait at the door instead of being computed twice"
    running = int(traffic.value.running if isinstance(traffic, Known) else case.runtime.running_requests.value_or(0))
    fewer = Knob.CAPACITY.to(None, f"more memory for the cache, or fewer requests at once: {why}")
    if running > 1:
        fewer = Knob.PARALLEL.to(max(1, int(FULL * running)), why)
    return Found(because, evidence, remedies=(*remedies, Remedy(fewer)))


def _unused_memory(case: Case) -> tuple[Remedy, ...]:
    """A larger share of the GPUs' memory, where the engine was told to leave much of it alone and nobody has it."""
    share, gpus = case.runtime.gpu_memory_fraction, gpus_used(case)
    sizes = [(g.vram_free_bytes.value_or(0), g.vram_total_bytes.value_or(0)) for g in gpus]
    if not runs_paged(case) or not isinstance(share, Known) or not sizes or not all(total for _, total in sizes):
        return ()
    free = min(left / total for left, total in sizes)
    most = MOST.get(case.runtime.name.value_or(""), MOST_WITHOUT_BUFFERS)
    larger = round(min(most, share.value + free - SPARED), 2)
    if larger < share.value + WORTH:
        return ()
    why = f"{free:.0%} of the GPU's memory is free, and the cache may have it"
    return (Remedy(Knob.FIT_MARGIN.to(larger, why)),)


CAUSE = Cause(
    title="The KV cache is full",
    phase="queue",
    needs=(("run.traffic", "runtime.preemptions", "runtime.kv_usage", "runtime.name", "account.remarks"),),
    check=check_by(_by_traffic, _by_kind, _by_counters, _by_words),
    explains=("queueing", "gpu_underused_by_one_stream"),
    ask=SHOW,
)
