"""How much of a token's time the runtime's threads spend waiting for a CPU.

The kernel counts the time that each thread was ready and did not run. The threads meet at a barrier after every
operation, so one that waits stops all: with T threads that each wait a share w, at least one waits 1 - (1 - w)^T of
the time. That is the most that waiting can explain; no more of it is believed than physics leaves unexplained.
"""

from typing import NamedTuple

from unslow.facts.machine import BusyProcess
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.bandwidth import cpus_of
from unslow.think.predict import Prediction

PRESSURE = "cpu_pressure"
"""The share of the time in which something on the machine waited for a CPU, by the kernel's own count."""

_STEM = 4
"""Letters that a runtime and its process share in their names: llama.cpp and llama-server, vLLM and VLLM::Engine."""


class Strangers(NamedTuple):
    """Who else used the processors while tokens were generated."""

    cpus: float
    processes: list[BusyProcess]
    perhaps_own: BusyProcess | None = None
    """Left out of both: it may be the runtime, whose own process nobody knows."""


def strangers(case: Case) -> Strangers | None:
    """The processors that others used; None where nobody looked, or nobody could tell them from the runtime.

    Behind a proxy, or a port of a container, the process that computes is not the one that answers. Then it is counted
    among the others, and of a model on the CPU it is the busiest of them.
    """
    used, seen = case.run.others_cpus, list(case.run.busiest_others.value_or([]))
    apart = any(isinstance(f, Known) for f in (case.runtime.pid, case.run.own_cpus, case.run.busiest_others))
    if not isinstance(used, Known) or not apart:
        return None
    processes = [p for p in seen if p.pid]
    if isinstance(case.runtime.pid, Known) or not processes:
        return Strangers(used.value, seen)
    own = _perhaps_server(case, processes)
    return Strangers(max(0.0, used.value - own.cpus), [p for p in seen if p is not own], own)


def without_server(case: Case, processes: list[BusyProcess]) -> list[BusyProcess]:
    """Busy processes without the one that may be the runtime, whose own process nobody knows."""
    named = [p for p in processes if p.pid]
    own = _perhaps_server(case, named) if named else None
    return [p for p in processes if p is not own]


def _perhaps_server(case: Case, processes: list[BusyProcess]) -> BusyProcess:
    return next((p for p in processes if is_named_after(case, p)), max(processes, key=lambda p: p.cpus))


def is_named_after(case: Case, process: BusyProcess) -> bool:
    """Whether a process is the runtime's, by its name."""
    words = case.runtime.name.value_or("").lower().split()
    return bool(words) and len(words[-1]) >= _STEM and words[-1][:_STEM] in process.name.lower()


def pressure(case: Case) -> float | None:
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
        return max(pressure(case) or 0.0, min(1.0, stolen))
    threads = max(1, case.runtime.threads.value_or(1))
    return float(1 - (1 - min(1.0, waited.value / (threads * token_s) + stolen)) ** threads)


def stolen_cpus(case: Case) -> float:
    """Processors whose time the hypervisor gave to others: the kernel counts that apart, as if its threads ran on."""
    return sum(process.cpus for process in case.run.busiest_others.value_or([]) if process.pid == 0)


def waiting_s(case: Case, token_s: float, prediction: Prediction | None) -> float:
    """Seconds of a token that are due to waiting."""
    stalled = stalled_share(case, token_s) * token_s
    return min(stalled, max(0.0, token_s - prediction.seconds.mid)) if prediction else stalled


def crowded(case: Case) -> bool:
    """Whether the runtime's own threads outnumber the CPUs, so that they wait for each other."""
    return bool(case.runtime.threads.value_or(0) > cpus_of(case))
