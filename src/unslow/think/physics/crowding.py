"""Threads that share processors: they meet at a barrier after every operation, so all wait for the one that waits.

More threads than processors: at every barrier some thread is not running, and the others spin until it had its turn.
A quota: threads that spin use time as those that compute do, so as many processors' time is used up as threads run,
and for the rest of each period nothing runs.
"""

import math

TURN_S = 4.5e-4
"""For each layer and the root of the threads that are too many. Measured with llama-server, in ms for each layer:

    4, 8 and 16 threads on 2 cores, 135M and 270M: 0.45 to 1.0, 0.8 to 1.4, 1.9 to 3.0   here 0.64, 1.1, 1.7
    4 and 8 threads on 2 cores, 1B: 0.2, 0.3       64 threads on 16 cores, 8B: 2.2 to 2.9        here 3.1

It is no share of the time: large operations hide most of it, so that a 1B model lost 5 % to 8 threads on 2 cores.
"""
ALONE_TURN_S = 1e-4
"""The same on a single processor, where only one thread ever runs and nobody spins beside it: 2 threads on one of them
generated 47 and 48 tok/s where one thread reached 58 and 55 (135M: 0.13 and 0.08 ms for each layer)."""
CROWDING_SPREAD = 3.0
"""The same 16 threads on 2 cores cost a tenth in one run and 5.5 times the time in another."""


def crowding_s(layers: float, threads: float, cpus: float) -> float:
    """Seconds of a token that threads wait for others of their own."""
    return layers * (TURN_S if cpus > 1 else ALONE_TURN_S) * math.sqrt(max(0.0, threads - cpus))


def throttling(threads: float, cpus: float, quota_cpus: float) -> float:
    """How many times longer everything takes under a quota.

    2 threads under 1.5, 1.0 and 0.5 processors' time reached 0.79, 0.54 and 0.24 of their free speed, where 0.75, 0.50
    and 0.25 are expected; one thread under 0.5 reached 0.49.
    """
    return max(1.0, min(threads, cpus) / quota_cpus) if quota_cpus > 0 else 1.0
