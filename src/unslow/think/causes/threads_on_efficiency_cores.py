"""Threads run on the slow cores of a hybrid CPU, and the fast ones wait for them.

## Why it is slow
The work of every operation is cut into equal parts, one for each thread, and all meet at a barrier. A part that runs
on an efficiency core takes two to three times as long, so the performance cores stand idle for the rest.

## How to confirm
The CPU has performance and efficiency cores (Intel since the 12th generation, Apple, many phones), there are more
threads than performance cores, and as many threads as performance cores are faster: `llama-bench -m MODEL -n 64 -t
6,8,14,20`.

Guides say to set the number of threads by hand on such CPUs, but llama.cpp counts performance cores by itself on
Linux.

## What it is not
More threads than performance cores where that costs nothing: the memory's bandwidth is used up, or many slow cores
share the work of a few fast ones. Only the trial decides.

## How to fix
On any runtime as many threads as performance cores, or bound there. llama.cpp: drop `-t`, or `-t N --cpu-range 0-15
--cpu-strict 1`; Ollama: `num_thread`; LM Studio: "CPU Thread Pool Size"; any runtime: `taskset -c 0-15`; Windows:
start it with the affinity of the fast cores.

## Safety
Answers do not change.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.instructions import spelled_out
from unslow.think.case.narrative import (
    blames,
    experiment_on,
    fewer_are_faster,
    gain_of,
    is_clear,
    remarks_on,
    times_as_fast,
)
from unslow.think.case.placement import cpu_computes
from unslow.think.case.slowness import generates_slowly, shortfall
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._evidence import cite_watched, host_at_work
from unslow.think.causes._facts import cite, cite_comparison, cite_remarks, need

SLOW_SHARE = "own_slow_core_share"
HELD_UP = 0.1
"""Of the running threads on slow cores: one of ten is enough, for all others wait for it at the end of every step."""
FAR_BELOW = 1.5
"""Times slower than expected: a slow core takes two to three times as long for its part, so less is not its doing."""
OTHERS_BUSY = 0.3  # Processors that others use: then threads may have been pushed aside, which is another matter


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the threads against the fast cores; only a trial tells whether the slow ones hold them up."""
    if cpu_computes(case) is False:
        return Absent("all layers are on the GPU: the threads have next to nothing to do")
    return first_to_decide(case, _by_words, _by_all_cores, _by_watching, _by_count)


def _by_words(case: Case) -> Found | None:
    """Somebody who sees the work on the slow cores tells the cause itself."""
    said = remarks_on(case, Topic.EFFICIENCY_CORES_BUSY)
    if not said or not blames(case, "decode", "prefill"):
        return None
    change = Knob.THREADS.to(case.machine.cpu.performance_cores.value_or(None), "bind the threads to performance cores")
    return Found(f"efficiency cores do the work: {said[0].text}", cite_remarks(case, said), remedies=(Remedy(change),))


def _by_all_cores(case: Case) -> Found | Suspected | None:
    """Every core of a hybrid CPU is busy since it got slower: the slow ones hold the fast ones up."""
    cpu, busy = case.machine.cpu, remarks_on(case, Topic.CPU_BUSY)
    if not cpu.performance_cores.value_or(0) or not cpu.efficiency_cores.value_or(0) or not busy:
        return None
    if isinstance(case.runtime.threads, Known):
        return None
    slower = experiment_on(case, Topic.THREADS, Topic.VERSION, Topic.SYSTEM)
    if slower is None or not is_clear(slower) or fewer_are_faster(slower) is False:
        return Suspected(busy[0].text, "the speed with as many threads as performance cores", CAUSE.ask)
    fast = cpu.performance_cores.value_or(1)
    change = Knob.THREADS.to(fast, "one thread for each performance core")
    evidence = (
        cite(case, "machine.cpu.efficiency_cores"),
        *cite_remarks(case, busy[:1]),
        cite_comparison(case, slower),
    )
    words = f"all cores are busy, the slow ones too: {busy[0].text}"
    return Found(words, evidence, remedies=(Remedy(change),), speedup=gain_of(slower))


def _by_watching(case: Case) -> Found | Absent | None:
    """Where the threads ran while tokens were generated."""
    seen, cpu = host_at_work(case, SLOW_SHARE), case.machine.cpu
    if seen is None or experiment_on(case, Topic.THREADS):
        return None
    words = f"{seen.mean:.0%} of the running threads were on efficiency cores"
    if seen.mean < HELD_UP:
        return Absent(words)
    lost = shortfall(case)
    if lost is None or lost < FAR_BELOW or case.run.others_cpus.value_or(0.0) >= OTHERS_BUSY:
        return None
    fast = cpu.performance_cores.value_or(None)
    change = Knob.THREADS.to(fast, "one thread for each performance core")
    cure = Cure(threads=fast) if fast else None
    evidence = (cite_watched(case, SLOW_SHARE, words, "none"),)
    return Found(f"{words}, and the others wait for them", evidence, cure, (Remedy(change, cure),))


def _by_count(case: Case) -> Found | Absent | Suspected:
    threads = need(case, "runtime.threads")
    fast, slow = need(case, "machine.cpu.performance_cores"), need(case, "machine.cpu.efficiency_cores")
    if not slow or not fast:
        return Absent("all cores are of one kind")
    if threads <= fast:
        return Absent(f"{threads} threads fit on {fast} performance cores")
    tried = experiment_on(case, Topic.THREADS)
    words = f"{threads} threads run on {fast} performance and {slow} efficiency cores"
    fewer = fewer_are_faster(tried) if tried else None
    if tried and is_clear(tried) and fewer is None:
        return Suspected(f"{words}: {tried.text}", "which of the two speeds is that with fewer threads", CAUSE.ask)
    if tried and is_clear(tried) and fewer:
        return Found(
            because=f"{words}, and fewer threads are {times_as_fast(tried)}",
            evidence=(cite(case, "runtime.threads", f"{fast} performance cores"), cite_comparison(case, tried)),
            remedies=(Remedy(Knob.THREADS.to(fast, "one thread for each performance core")),),
            speedup=gain_of(tried),
        )
    if tried or generates_slowly(case) is False:
        return Absent(f"{words}, and that costs nothing here")
    trial = spelled_out("{try_fast_cores}", case).replace("FAST", str(fast)).replace("ALL", str(threads))
    return Suspected(words, "the speed with as many threads as performance cores", trial)


CAUSE = Cause(
    title="Threads run on efficiency cores",
    phase="decode",
    needs=(("runtime.threads", "account.remarks"), ("machine.cpu.performance_cores", "account.remarks")),
    check=check,
    explains=("threads_exceed_cores",),
    ask="{cpu_cores}, and the number of threads: {command_line}",
)
