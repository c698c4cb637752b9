"""Threads run on the slow cores of a hybrid CPU, and the fast ones wait for them.

## Why it is slow
The work of every operation is cut into equal parts, one per thread, and all threads meet at a barrier. A part that runs
on an efficiency core takes two to three times as long, and the performance cores are idle until it is done.

## How to confirm
The CPU has performance and efficiency cores (Intel since the 12th generation, Apple, many phones), there are more
threads than performance cores, and as many threads as performance cores are faster: `llama-bench -m MODEL -n 64 -t
6,8,14,20`.

Guides say to set the number of threads by hand on such CPUs, but llama.cpp already counts performance cores on Linux.

## What it is not
More threads than performance cores where that costs nothing: memory bandwidth is saturated, or many slow cores share
the work of a few fast ones. Only a trial decides.

## How to fix
On any runtime as many threads as performance cores, or threads bound to them. llama.cpp: drop `-t`, or `-t N
--cpu-range 0-15 --cpu-strict 1`; Ollama: `num_thread`; LM Studio: "CPU Thread Pool Size"; any runtime: `taskset -c
0-15`; Windows: start it with the affinity of the fast cores.

## Safety
Answers do not change.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.cure import Cure
from unslow.think.case.narrative import fewer_are_faster, is_clear, times_as_fast
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding, threads_have_no_work

SLOW_SHARE = "own_slow_core_share"
HELD_UP = 0.1
"""Of the running threads on slow cores: one in ten is enough, for all others wait for it at the end of every step."""
FAR_BELOW = 1.5
"""Times slower than expected: a slow core takes two to three times as long for its part, so less is not its doing."""
OTHERS_BUSY = 0.3  # CPUs that others use: they may have pushed the threads aside, which is another cause
WHY = "one thread per performance core"
TRIAL = "the speed with as many threads as performance cores"


def slow_cores_seen_busy(case: CaseView) -> Found | None:
    """A user saw efficiency cores do the work."""
    said = case.narrative.remarks_on(Topic.EFFICIENCY_CORES_BUSY)
    if not said or not case.narrative.blames("decode", "prefill"):
        return None
    change = Knob.THREADS.to(case.machine.cpu.performance_cores.get(), "bind the threads to performance cores")
    return finding(case, f"efficiency cores do the work: {said[0].text}", *said, fixes=[change])


def all_cores_seen_busy(case: CaseView) -> Found | Suspected | None:
    """A user saw all cores of a hybrid CPU busy, and a change of threads, version or system made it slower."""
    fast, slow = case.machine.cpu.performance_cores.get(), case.machine.cpu.efficiency_cores.get()
    busy = case.narrative.remarks_on(Topic.CPU_BUSY)
    if not fast or not slow or not busy or isinstance(case.runtime.compute.threads, Known):
        return None
    trial = case.narrative.experiment_on(Topic.THREADS, Topic.VERSION, Topic.SYSTEM)
    if trial is None or not is_clear(trial) or fewer_are_faster(trial) is False:
        return Suspected(busy[0].text, TRIAL, CAUSE.ask)
    because = f"all cores are busy, the slow ones too: {busy[0].text}"
    fix = Knob.THREADS.to(fast, WHY)
    return finding(case, because, "machine.cpu.efficiency_cores", busy[0], fixes=[fix], trial=trial)


def where_threads_ran(case: CaseView) -> Found | Absent | None:
    """The share of the running threads that was sampled on efficiency cores during decode."""
    seen = case.telemetry.host_at_work(SLOW_SHARE)
    if seen is None or case.narrative.experiment_on(Topic.THREADS):
        return None
    words = f"{seen.mean:.0%} of the running threads were on efficiency cores"
    if seen.mean < HELD_UP:
        return Absent(words)
    lost = case.speed.shortfall
    if lost is None or lost < FAR_BELOW or (case.run.others_cpus.get() or 0.0) >= OTHERS_BUSY:
        return None
    fast = case.machine.cpu.performance_cores.get()
    return finding(
        case,
        f"{words}, and the others wait for them",
        case.telemetry.cite(SLOW_SHARE, words, "none"),
        cure=Cure(threads=fast) if fast else None,
        fixes=[Knob.THREADS.to(fast, WHY)],
    )


def threads_against_fast_cores(case: CaseView) -> Found | Absent | Suspected:
    """The number of threads against the performance cores; only a trial shows whether the slow ones hold them up."""
    threads = case.need("runtime.compute.threads")
    fast, slow = case.need("machine.cpu.performance_cores"), case.need("machine.cpu.efficiency_cores")
    if not slow or not fast:
        return Absent("all cores are of one kind")
    if threads <= fast:
        return Absent(f"{threads} threads fit on {fast} performance cores")
    trial = case.narrative.experiment_on(Topic.THREADS)
    words = f"{threads} threads run on {fast} performance and {slow} efficiency cores"
    if trial and is_clear(trial):
        fewer = fewer_are_faster(trial)
        if fewer is None:
            return Suspected(f"{words}: {trial.text}", "which of the two speeds is with fewer threads", CAUSE.ask)
        if fewer:
            return finding(
                case,
                f"{words}, and fewer threads are {times_as_fast(trial)}",
                case.cite("runtime.compute.threads", f"{fast} performance cores"),
                fixes=[Knob.THREADS.to(fast, WHY)],
                trial=trial,
            )
    if trial or case.speed.is_slow is False:
        return Absent(f"{words}, which costs nothing here")
    command = case.system.spell_out("{try_fast_cores}").replace("FAST", str(fast)).replace("ALL", str(threads))
    return Suspected(words, TRIAL, command)


CAUSE = Cause(
    title="Threads run on efficiency cores",
    phase="decode",
    needs=all_of("runtime.compute.threads or account.remarks", "machine.cpu.performance_cores or account.remarks"),
    routes=(
        Route("counted", threads_have_no_work),
        Route("told", slow_cores_seen_busy),
        Route("told", all_cores_seen_busy),
        Route("measured", where_threads_ran),
        Route("counted", threads_against_fast_cores),
    ),
    explains=("threads_exceed_cores",),
    ask="{cpu_cores}, and the number of threads: {command_line}",
)
