"""What a request waits for while nothing is computed for it, and how long the runtime's threads wait for a CPU."""

import re
import statistics
from typing import NamedTuple

from unslow.facts.machine import BusyProcess
from unslow.facts.run import Completion
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Origin
from unslow.think.case.bandwidth import cpus_of
from unslow.think.case.prediction import Prediction, measured_rate
from unslow.think.case.runtime import EACH, keep_alive_s, load_time_s, reloading
from unslow.think.case.slowness import shortfall

# How much of a token's time the runtime's threads spend waiting for a CPU.
# The kernel counts the time that each thread was ready and did not run. The threads meet at a barrier after every
# operation, so one that waits stops all: with T threads that each wait a share w, at least one waits 1 - (1 - w)^T of
# the time. That is the most that waiting can explain; no more of it is believed than physics leaves unexplained.

PRESSURE = "cpu_pressure"
"""The share of the time in which something on the machine waited for a CPU, by the kernel's own count."""

_STEM = 4
"""Letters that a runtime and its process share in their names: llama.cpp and llama-server, vLLM and VLLM::Engine."""


class OtherProcesses(NamedTuple):
    """Who else used the processors while tokens were generated."""

    cpus: float
    processes: list[BusyProcess]
    perhaps_own: BusyProcess | None = None  # Left out of both: it may be the runtime, whose own process nobody knows


def other_processes(case: Case) -> OtherProcesses | None:
    """The processors that others used; None where nobody looked, or nobody could tell them from the runtime.

    Behind a proxy, or a port of a container, the process that computes is not the one that answers. Then it is counted
    among the others, and of a model on the CPU it is the busiest of them.
    """
    used, seen = case.run.others_cpus, list(case.run.busiest_others.value_or([]))
    apart = any(isinstance(f, Known) for f in (case.runtime.pid, case.run.own_cpus, case.run.busiest_others))
    if not isinstance(used, Known) or not apart:
        return None
    own = None if isinstance(case.runtime.pid, Known) else _perhaps_server(case, seen)
    if own is None:
        return OtherProcesses(used.value, seen)
    return OtherProcesses(max(0.0, used.value - own.cpus), [p for p in seen if p is not own], own)


def without_server(case: Case, processes: list[BusyProcess]) -> list[BusyProcess]:
    """Busy processes without the one that may be the runtime, whose own process nobody knows."""
    own = _perhaps_server(case, processes)
    return [p for p in processes if p is not own]


def _perhaps_server(case: Case, processes: list[BusyProcess]) -> BusyProcess | None:
    known = [p for p in processes if p.pid]
    return next((p for p in known if is_named_after(case, p)), max(known, key=lambda p: p.cpus, default=None))


def is_named_after(case: Case, process: BusyProcess) -> bool:
    """Whether a process is the runtime's, by its name."""
    words = case.runtime.name.value_or("").lower().split()
    return bool(words) and len(words[-1]) >= _STEM and words[-1][:_STEM] in process.name.lower()


def cpu_pressure(case: Case) -> float | None:
    """How much of the time somebody waited for a CPU while tokens were generated; None where nobody looked."""
    seen = case.run.telemetry
    phases = seen.value.phases if isinstance(seen, Known) else ()
    stat = next((p.host.get(PRESSURE) for p in phases if p.phase == "decode" and p.samples), None)
    return min(1.0, max(0.0, stat.mean)) if stat else None


def stalled_share(case: Case, token_s: float) -> float:
    """The share of a token's time in which some thread waits; 0 where nobody counted.

    Without a count of the runtime's own threads it is that of the whole machine, which is the most that it can be.
    """
    waited = case.run.waiting_for_cpu_s_per_token
    if token_s <= 0:
        return 0.0
    stolen = stolen_cpus(case) / max(1.0, cpus_of(case))
    if not isinstance(waited, Known):
        return max(cpu_pressure(case) or 0.0, min(1.0, stolen))
    threads = max(1, case.runtime.threads.value_or(1))
    return float(1 - (1 - min(1.0, waited.value / (threads * token_s) + stolen)) ** threads)


def stolen_cpus(case: Case) -> float:
    """Processors whose time the hypervisor gave to others: the kernel counts that apart, as if its threads ran on."""
    return sum(process.cpus for process in case.run.busiest_others.value_or([]) if process.pid == 0)


def waiting_s(case: Case, token_s: float, prediction: Prediction | None) -> float:
    """Seconds of a token that are due to waiting."""
    stalled = stalled_share(case, token_s) * token_s
    return min(stalled, max(0.0, token_s - prediction.seconds.mid)) if prediction else stalled


def threads_exceed_cpus(case: Case) -> bool:
    """Whether the runtime's own threads outnumber the CPUs, so that they wait for each other."""
    return bool(case.runtime.threads.value_or(0) > cpus_of(case))


# What a request waits for while nothing is computed for it: the way to the server, its turn, a load.
# Between a request's arrival and the reading of its prompt a server works too: llama.cpp first saves the prompt that
# the slot held before. On one machine, by the server's number, nobody else can take that time, so it is the server's.

NOTICED_S = 0.5  # Seconds of every request that nobody overlooks
SOMEBODY = 0.5  # Requests that wait on average: fewer are those that come a moment too early
USUAL_ANSWER = 256
"""Tokens of an answer where none was measured: it only weighs phases against each other. Answers in two collections of
people's questions have 58 (Alpaca) and 338 (ShareGPT) on average: Kwon et al. 2023, "Efficient Memory Management for
Large Language Model Serving with PagedAttention", figure 11."""
LEAST_HELD_S = 1.0  # Before a first piece, beyond what the server itself took: people notice a second
MOST_OF_IT, AT_ONCE = 0.8, 0.2
"""Of the time that the server took for an answer: waited for without a token, and in which all tokens then came."""
IN_BURSTS = 0.3  # Of the same: a stream that stands still for so long is no stream
LONGEST_PREPARING_S = 1.0
"""Copying a prompt's cache within RAM takes less: a longer pause has somebody else in between, such as a proxy."""
_BY_NUMBER = re.compile(r"^https?://(?:127\.\d+\.\d+\.\d+|\[::1\])(?:[:/]|$)")


def completions_of(case: Case) -> tuple[Completion, ...]:
    """The requests that were timed."""
    done: tuple[Completion, ...] = case.run.completions.value_or(())
    return done


def answer_tokens(case: Case) -> float:
    """How long an answer is here."""
    lengths = [c.generated_tokens for c in completions_of(case) if c.generated_tokens]
    return statistics.fmean(lengths) if lengths else USUAL_ANSWER


def client_s(case: Case) -> float | None:
    """Seconds of a request that the server does not account for: by the requests themselves, and by the way to it."""
    whole = [c.client_total_s - c.prefill_s - c.decode_s for c in completions_of(case) if c.client_total_s is not None]
    beside = (queue_s(case) or 0.0) + (reload_s(case) or 0.0)
    by_requests = max(0.0, statistics.median(whole) - beside) if whole else None
    known = (by_requests, detour_s(case), held_up_s(case) or None)
    return max((seconds for seconds in known if seconds is not None), default=None)


def is_held_back(completion: Completion) -> bool:
    """Whether an answer that took the server a while came all at once at its end."""
    first, total = completion.client_first_token_s or 0.0, completion.client_total_s or 0.0
    waited = first - completion.prefill_s
    late = waited >= max(LEAST_HELD_S, MOST_OF_IT * completion.decode_s)
    return late and total - first < AT_ONCE * completion.decode_s


def held_back_s(case: Case) -> float:
    """Seconds in which somebody holds back what the server generates, all of it or in bursts; 0 where nobody does."""
    runs = [c for c in completions_of(case) if c.client_first_token_s is not None and c.decode_s > 0]
    if runs and all(is_held_back(c) for c in runs):
        return statistics.median((c.client_first_token_s or 0.0) - c.prefill_s for c in runs)
    paused = [c.held_back_s for c in runs if not c.drafted_tokens]
    pauses = statistics.median(paused) if paused else 0.0
    usual = statistics.median([c.decode_s for c in runs] or [0.0])
    return pauses if pauses >= max(NOTICED_S, IN_BURSTS * usual) else 0.0


def held_up_s(case: Case) -> float:
    """The same as a price: a server that generates too slowly holds the answer up as well, by its part."""
    return held_back_s(case) / max(1.0, shortfall(case) or 1.0)


def detour_s(case: Case) -> float | None:
    """How much longer the slowest name of the server takes to answer than the quickest."""
    routes = [r.seconds for r in case.run.routes.value_or(()) if r.seconds is not None]
    return max(routes) - min(routes) if len(routes) > 1 else None


def is_history(case: Case) -> bool:
    """Whether the wait for a turn is a mean of all requests so far, of which none waits now."""
    known, crowd = case.run.queue_s, case.run.traffic
    if not isinstance(known, Known) or known.origin is not Origin.ESTIMATED:
        return False
    if isinstance(crowd, Known) and crowd.value.counts_waiting:
        return crowd.value.waiting < SOMEBODY
    return case.runtime.deferred_requests.value_or(1) == 0


def queue_s(case: Case) -> float | None:
    """Seconds that a request waits in the server before its prompt is read."""
    known = case.run.queue_s
    if isinstance(known, Known) and not is_history(case):
        return known.value
    crowd = case.run.traffic
    if not isinstance(crowd, Known) or not crowd.value.running:
        return preparing_s(case)
    # Little's law: as many wait as come in while one waits, and what runs now takes as long as an answer does
    rate = measured_rate(case)
    answer_s = answer_tokens(case) / rate.value if isinstance(rate, Known) else None
    return crowd.value.waiting / crowd.value.running * answer_s if answer_s else None


def preparing_s(case: Case) -> float | None:
    """Seconds in which an idle server on this machine makes ready for a request; None where others may take them."""
    gaps = [c.client_first_token_s - c.prefill_s for c in completions_of(case) if c.client_first_token_s is not None]
    if not gaps or not _BY_NUMBER.match(case.runtime.url.value_or("")):
        return None
    gap = max(0.0, statistics.median(gaps))
    return gap if (detour_s(case) or 0.0) < gap < LONGEST_PREPARING_S else None


def reload_s(case: Case) -> float | None:
    """Seconds of loading that every request waits for, where it is known why the model is loaded anew; else None."""
    again, crowd = reloading(case), case.run.traffic
    watched = crowd.value.loads.value_or(0) if isinstance(crowd, Known) else 0
    each = again is not None and again.reason != "unknown" and (again.requests_per_load or 0.0) <= EACH
    return load_time_s(case) if each or watched > 1 or keep_alive_s(case) == 0 else None
