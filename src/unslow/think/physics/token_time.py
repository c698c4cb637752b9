"""The time of a token of a diagnosed machine in parts, by physics or as calibrated: GPUs, CPU, sampling, crowds."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from unslow.facts.calibration import Calibration, Demand, Rates
from unslow.think.physics.placement import element_bytes
from unslow.think.physics.terms import Interval, interval_around

# Threads that share processors: they meet at a barrier after every operation, so all wait for the one that waits.
# More threads than processors: at every barrier some thread is not running, and the others spin until it had its turn.
# A quota: threads that spin use time as those that compute do, so as many processors' time is used up as threads run,
# and for the rest of each period nothing runs.

TURN_S = 4.5e-4
"""For each layer and the root of the threads that are too many. Measured with llama-server, in ms for each layer:

    4, 8 and 16 threads on 2 cores, 135M and 270M: 0.45 to 1.0, 0.8 to 1.4, 1.9 to 3.0   here 0.64, 1.1, 1.7
    4 and 8 threads on 2 cores, 1B: 0.2, 0.3       64 threads on 16 cores, 8B: 2.2 to 2.9        here 3.1

It is no share of the time: large operations hide most of it, so that a 1B model lost 5 % to 8 threads on 2 cores.
"""
ALONE_TURN_S = 1e-4
"""The same on a single processor, where only one thread ever runs and nobody spins beside it: 2 threads on one of them
generated 47 and 48 tok/s where one thread reached 58 and 55 (135M: 0.13 and 0.08 ms for each layer)."""
CROWDING_SPREAD = 3.0  # the same 16 threads on 2 cores cost a tenth in one run and 5.5 times the time in another


def crowding_s(layers: float, threads: float, cpus: float) -> float:
    """Seconds of a token that threads wait for others of their own."""
    return layers * (TURN_S if cpus > 1 else ALONE_TURN_S) * math.sqrt(max(0.0, threads - cpus))


def throttling(threads: float, cpus: float, quota_cpus: float) -> float:
    """How many times longer everything takes under a quota.

    2 threads under 1.5, 1.0 and 0.5 processors' time reached 0.79, 0.54 and 0.24 of their free speed, where 0.75, 0.50
    and 0.25 are expected; one thread under 0.5 reached 0.49.
    """
    return max(1.0, min(threads, cpus) / quota_cpus) if quota_cpus > 0 else 1.0


# The time of one generated token of a diagnosed machine: what its GPUs take, what its CPU takes, what sampling takes.
# What either side takes are the terms of `physics.decode`; a CPU's are with the bandwidth that was
# measured on the machine, which says more than a catalogue. Threads in each other's way and a quota come on top.

CROWD, QUOTA, SAMPLING = "threads in each other's way", "stopped by the quota", "sampling"
_QUOTA_SPREAD, _SAMPLING_SPREAD = 1.3, 2.0
_FEW_TIMES = 2.0
"""By how many times a quota was exceeded where its cost was measured; beyond, it is as uncertain as any crowd."""


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
    beside: tuple[Part, ...] = ()
    """What settings cost that have nothing to do with how much is read: copies, crossings, sorting."""

    @property
    def is_hindered(self) -> bool:
        """Whether threads outnumber processors, or use up a quota."""
        return self.crowding_s > 0 or self.throttling > 1


def decode_parts(work: Work) -> list[Part]:
    """The parts of the time of one token; their sum is the prediction."""
    parts: list[Part] = []
    for side in (work.device, work.host):
        parts += [Part(name, seconds, side.spread) for name, seconds in side.seconds.items()] if side else []
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


LOGITS_S_PER_ENTRY = 3.3e-9
"""Sampling in llama-server as it is by default (the best few of all entries are found, and weighed), the middle of what
lies between llama-bench (lab/data/h200_speed_learning.jsonl) and the server (tests/machines/lab_gpu_healthy_*) on hosts
of one H200: 0.20 ms for 49,152 entries, 0.39 to 0.44 for 128,256 and 0.45 to 0.47 for 151,936; an older build on
another such host took 0.7 ms for 128,256."""
SORT_S_PER_ENTRY = 6e-8
"""Sorting a whole vocabulary, the middle of what hosts take: 36 ns on a desktop (53.5 against 75.5 tok/s with 151,936
entries, llama.cpp issue 13171), 49 on two cores of a server, 147 on a host of an H200 (43 against 243 with 128,256)."""
SORT_SPREAD = 2.5


def sorting_s(vocabulary: float) -> float:
    """Seconds for a token that sorting all entries adds."""
    return vocabulary * SORT_S_PER_ENTRY


LOGPROB_S = 2.6e-6
"""For the probability of one more token at every step, which is found, written as JSON with its text and bytes, and
sent: 1,000 of them took 3.9 ms on two cores of a server (116 against 78 tok/s, 49,152 entries) and 1.8 ms on a host of
an H200 (236 against 149, 128,256 entries), beyond the pass over all entries."""
LOGPROBS_SPREAD = 1.8


def logprobs_s(count: float, vocabulary: float) -> float:
    """Seconds for a token that returning the probabilities of so many adds: all entries are weighed once more."""
    return vocabulary * LOGITS_S_PER_ENTRY + count * LOGPROB_S if count > 0 else 0.0


# The time of a token and of a prompt on a machine that was measured.
# A token costs its weights, each type at its own rate (on a processor some types wait for memory and others for
# arithmetic, so one bandwidth can't stand for all), a little for each operation and for each row of a matrix, the
# vocabulary that is multiplied and sampled, the keys and values it attends to, and one step of the server.

LEAST_SPREAD = 1.08  # the same model on the same machine, minutes apart
SPREAD_OF_A_NEIGHBOUR = 1.3
"""A type that was not measured: those of one family differ by up to a third in bytes per second."""
SPREAD_OF_A_STRANGER = 1.8  # a type of a family that was not measured, such as one that looks weights up in a table
SPREAD_OF_ATTENTION = 1.4  # it depends on the shape of the heads, of which two were measured
CACHED_SHARE = 0.5
"""Weights that take no more than this share of the last cache may be read from there, and faster than was measured."""
CACHED_GAIN = 1.5
DISTURBED = 1.15  # another program held processors while the machine was measured
SPREAD_OF_PREFILL = 1.15


class Calibrated(NamedTuple):
    """Seconds with an interval, and the parts that they are the sum of."""

    seconds: Interval
    parts: list[Part]


def calibrated_decode(demand: Demand, calibration: Calibration) -> Calibrated | None:
    """The time of one token; None where the calibration has no rates, only a scale."""
    rates = calibration.rates
    if rates is None or not rates.types:
        return None
    spread = _least_spread(calibration)
    parts = [
        Part("weights", *_weights(demand.bytes_by_type, rates, spread)),
        Part("operations", demand.operations * rates.operation_s, spread),
        Part("rows", demand.rows * rates.row_s, spread),
        Part("vocabulary", demand.vocabulary * rates.vocabulary_entry_s, spread),
        Part(
            "attention",
            demand.attention_elements * rates.attention_element_s + demand.kv_bytes * rates.kv_byte_s,
            SPREAD_OF_ATTENTION,
        ),
        Part("step", rates.step_s, spread),
    ]
    # How much faster it may be, as the weights may come from the processors' cache
    fits = sum(demand.bytes_by_type.values()) <= CACHED_SHARE * calibration.cache_bytes
    cached = CACHED_GAIN if fits and calibration.backend == "cpu" else 1.0
    return _summed(parts, calibration, cached)


def calibrated_prefill(demand: Demand, calibration: Calibration, prompt_tokens: int) -> Calibrated | None:
    """The time of a whole prompt into an empty context; `demand` is at depth 1. None where no prompt was measured."""
    rates = calibration.rates
    if rates is None or not any(rate.prefill_bytes_per_s for rate in rates.types):
        return None
    spread = max(_least_spread(calibration), SPREAD_OF_PREFILL)
    weights_s, weights_spread = _weights(demand.layer_bytes_by_type, rates, spread, prefill=True)
    # a token attends to half of the prompt on average, and `demand` has what it attends to in one token
    attended = demand.attention_elements / max(1, demand.depth_tokens) * prompt_tokens * prompt_tokens / 2
    parts = [
        Part("weights", weights_s * prompt_tokens, weights_spread),
        Part("operations", demand.operations * prompt_tokens * rates.prefill_operation_s, spread),
        Part("experts", demand.expert_bytes * prompt_tokens * rates.prefill_expert_byte_s, spread),
        Part("attention", attended * rates.prefill_attention_element_s, SPREAD_OF_ATTENTION),
        Part("vocabulary", demand.vocabulary * rates.vocabulary_entry_s, spread),
        Part("step", rates.step_s, spread),
    ]
    return _summed(parts, calibration)


def _least_spread(calibration: Calibration) -> float:
    error = calibration.rates.error if calibration.rates else 0.0
    return max(LEAST_SPREAD, 1 + 2 * error, DISTURBED if calibration.disturbed else 1.0)


def _summed(parts: Iterable[Part], calibration: Calibration, cached: float = 1.0) -> Calibrated:
    """The sum as the machine usually is: the costs are those of its best moments, which bound it below."""
    drift = max(1.0, calibration.drift)
    counted = [part._replace(seconds=part.seconds * drift) for part in parts if part.seconds > 0]
    seconds = sum(part.seconds for part in counted)
    spread = sum(part.seconds * part.spread for part in counted) / seconds if seconds else 1.0
    low, mid, high = interval_around(seconds, spread)
    return Calibrated(Interval(min(low, mid / drift) / cached, mid, max(high, mid * drift)), counted)


def _weights(
    bytes_by_type: dict[str, float], rates: Rates, least: float, *, prefill: bool = False
) -> tuple[float, float]:
    """Seconds of all types together, and the spread of the sum."""
    total, off = 0.0, 0.0
    for kind, count in bytes_by_type.items():
        speed, spread = _rate_of(kind, rates, prefill=prefill)
        seconds = count / speed if speed else 0.0
        total += seconds
        off += seconds * max(least, spread)
    return total, off / total if total else least


def _rate_of(kind: str, rates: Rates, *, prefill: bool) -> tuple[float, float]:
    """As measured, else as the measured type with the nearest bits per weight, of the same family if there is one."""
    known = [rate for rate in rates.types if rate.decode_bytes_per_s]
    for rate in known:
        if rate.type == kind:
            return rate.prefill_bytes_per_s if prefill else rate.decode_bytes_per_s, 1.0
    family = [rate for rate in known if _family(rate.type) == _family(kind)]
    size = element_bytes(kind)
    near = min(family or known, key=lambda rate: abs(element_bytes(rate.type) - size))
    spread = SPREAD_OF_A_NEIGHBOUR if family else SPREAD_OF_A_STRANGER
    # Bytes per second as the neighbour has them in decode, weights per second in prefill: there arithmetic decides
    if prefill:
        return near.prefill_bytes_per_s * size / element_bytes(near.type), spread
    return near.decode_bytes_per_s, spread


def _family(kind: str) -> str:
    """The kinds of kernels: floats, K-quants, I-quants (but IQ4, which are unpacked like the plain ones), plain."""
    if kind in ("F16", "BF16", "F32", "F64"):
        return "float"
    if kind.endswith("_K"):
        return "k"
    return "table" if kind.startswith(("IQ1", "IQ2", "IQ3")) else "plain"
