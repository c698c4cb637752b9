"""The time of a token of a diagnosed machine in parts: its GPUs, its CPU with threads in each other's way, sampling."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from unslow.think.physics.decode import HOST_LAYERS
from unslow.think.physics.terms import Interval, interval_around

CROWD, QUOTA, SAMPLING = "threads in each other's way", "stopped by the quota", "sampling"
_QUOTA_SPREAD, _SAMPLING_SPREAD = 1.3, 2.0
_FEW_TIMES = 2.0  # How far a quota was exceeded where its cost was measured; beyond, it is as uncertain as any crowd
TURN_S = 4.5e-4
"""For each layer and the root of the threads that are too many. Measured with llama-server, in ms for each layer:

    4, 8 and 16 threads on 2 cores, 135M and 270M: 0.45 to 1.0, 0.8 to 1.4, 1.9 to 3.0   here 0.64, 1.1, 1.7
    4 and 8 threads on 2 cores, 1B: 0.2, 0.3       64 threads on 16 cores, 8B: 2.2 to 2.9        here 3.1

It is no share of the time: large operations hide most of it, so that a 1B model lost 5 % to 8 threads on 2 cores.
"""
ALONE_TURN_S = 1e-4
"""The same on a single processor, where only one thread ever runs and nothing spins beside it: 2 threads on one of them
generated 47 and 48 tok/s where one thread reached 58 and 55 (135M: 0.13 and 0.08 ms for each layer)."""
SPINNING_TURN_S = 0.1
"""For each layer and the share of threads beyond the processors, where ggml's own threads wait in loops: those of
OpenMP give way, these run on until their time slice is over, at every one of a layer's operations. 4 threads on 2 cores
took 3.07 s for a token of 30 layers (Ollama 0.33, whose llama-server is built without OpenMP)."""
CROWDING_SPREAD = 3.0  # the same 16 threads on 2 cores cost a tenth in one run and 5.5 times the time in another
_LAYERS_SPREAD = 5.0
"""Of what threads lose by waiting for each other after every operation, which differs by build and host: 135M of
weights took 6 ms a token with ggml's own threads and 8 to 14 ms with those of OpenMP, on two virtual CPUs, of which one
alone took 6.5 ms with either (the healthy rows of lab/data/faults/ollama.jsonl and vulkan.jsonl)."""
LOGITS_S_PER_ENTRY = 3.3e-9
"""Sampling in llama-server as it is by default (the best few of all entries are found, and weighed), the middle of what
lies between llama-bench (lab/data/h200_speed_learning.jsonl) and the server (tests/machines/lab_gpu_healthy_*) on hosts
of one H200: 0.20 ms for 49,152 entries, 0.39 to 0.44 for 128,256 and 0.45 to 0.47 for 151,936; an older build on
another such host took 0.7 ms for 128,256."""
SORT_S_PER_ENTRY = 6e-8
"""Sorting a whole vocabulary, the middle of what hosts take: 36 ns on a desktop (53.5 against 75.5 tok/s with 151,936
entries, llama.cpp issue 13171), 49 on two cores of a server, 147 on a host of an H200 (43 against 243 with 128,256)."""
SORT_SPREAD = 2.5
LOGPROB_S = 2.6e-6
"""For the probability of one more token at every step, which is found, written as JSON with its text and bytes, and
sent: 1,000 of them took 3.9 ms on two cores of a server (116 against 78 tok/s, 49,152 entries) and 1.8 ms on a host of
an H200 (236 against 149, 128,256 entries), beyond the pass over all entries."""
LOGPROBS_SPREAD = 1.8


class Part(NamedTuple):
    """A share of the time of a token, and how far off it may be, as a factor."""

    name: str
    seconds: float
    spread: float


class Side(NamedTuple):
    """The GPUs or the CPU: what they take by part of the budget, what bandwidth alone would take, how far off it is."""

    seconds: Mapping[str, float]
    least_s: float
    spread: float


class Work(NamedTuple):
    """All that decides the time of one token."""

    device: Side | None
    host: Side | None
    vocabulary: float
    logits_s_per_entry: float
    crowding_s: float = 0.0  # What the host's threads lose to each other
    throttling: float = 1.0  # How many times longer the host takes under its quota
    beside: tuple[Part, ...] = ()  # What settings cost however much is read: copies, crossings, sorting


def decode_parts(work: Work) -> list[Part]:
    """The parts of the time of one token; their sum is the prediction."""
    # What either side takes are the terms of `physics.decode`; a CPU's are with the bandwidth that was measured on the
    # machine, which says more than a catalog. Threads in each other's way and a quota come on top.
    parts: list[Part] = []
    for side in filter(None, (work.device, work.host)):
        for name, seconds in side.seconds.items():
            parts.append(Part(name, seconds, _LAYERS_SPREAD if name == HOST_LAYERS else side.spread))
    if work.host:
        computing = sum(work.host.seconds.values()) + work.crowding_s
        parts.append(Part(CROWD, work.crowding_s, CROWDING_SPREAD))
        spread = _QUOTA_SPREAD if work.throttling <= _FEW_TIMES else CROWDING_SPREAD
        parts.append(Part(QUOTA, computing * (work.throttling - 1), spread))
    parts.append(Part(SAMPLING, work.vocabulary * work.logits_s_per_entry, _SAMPLING_SPREAD))
    return [part for part in (*parts, *work.beside) if part.seconds > 0]


def total_seconds(parts: list[Part]) -> Interval:
    """The sum, with an interval as wide as its largest parts make it."""
    seconds = sum(p.seconds for p in parts)
    spread = sum(p.seconds * p.spread for p in parts) / seconds
    return interval_around(seconds, spread)


def ceiling_tokens_per_s(work: Work) -> float:
    """What bandwidth alone allows: no measurement of one stream can beat it."""
    seconds = sum(side.least_s for side in (work.device, work.host) if side)
    return 1 / seconds if seconds else 0.0


def crowding_s(layers: float, threads: float, cpus: float, *, openmp: bool = True) -> float:
    """Seconds of a token that threads wait for others of their own, where there are more than processors."""
    # They meet at a barrier after every operation, where some thread is not running and the others spin until it was.
    if not openmp:
        return layers * SPINNING_TURN_S * max(0.0, threads / cpus - 1)
    return layers * (TURN_S if cpus > 1 else ALONE_TURN_S) * math.sqrt(max(0.0, threads - cpus))


def throttling(threads: float, cpus: float, quota_cpus: float) -> float:
    """How many times longer everything takes under a quota."""
    # Threads that spin use time as those that compute do, so as many processors' time is used up as threads run, and
    # for the rest of each period nothing runs. 2 threads under 1.5, 1.0 and 0.5 processors' time reached 0.79, 0.54 and
    # 0.24 of their free speed, where 0.75, 0.50 and 0.25 are expected; one thread under 0.5 reached 0.49.
    return max(1.0, min(threads, cpus) / quota_cpus) if quota_cpus > 0 else 1.0


def sorting_s(vocabulary: float) -> float:
    """Seconds for a token that sorting all entries adds."""
    return vocabulary * SORT_S_PER_ENTRY


def logprobs_s(count: float, vocabulary: float) -> float:
    """Seconds for a token that returning the probabilities of so many adds: all entries are weighed once more."""
    return vocabulary * LOGITS_S_PER_ENTRY + count * LOGPROB_S if count > 0 else 0.0
