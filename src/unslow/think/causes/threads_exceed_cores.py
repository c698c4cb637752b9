"""The runtime computes with more threads than there are CPUs to run them.

## Why it is slow
The threads meet at a barrier after every operation. Where two must share a CPU, all the others wait for the second
one, hundreds of times for each token.

## How to confirm
llama.cpp prints `n_threads = T ... / L`: T above the CPUs that the process may use. Sixteen threads on two cores were
5.5 times slower than two.

Guides say that the number of threads matters for a model on the GPU, but there it hardly does: they compute only what
lies on the CPU.

## What it is not
Two threads on a core with SMT, which are no crowd: they gain little and lose little. Nor threads of a model that is
all on the GPU.

## How to fix
Leave the number of threads to the runtime, or set it to the number of physical cores that it may use. llama.cpp: drop
`-t` and `-tb`, or `-t N`; Ollama: drop `num_thread`; LM Studio: "CPU Thread Pool Size"; Transformers:
`OMP_NUM_THREADS=N`; vLLM on a CPU, which else counts the cores itself: `VLLM_CPU_OMP_THREADS_BIND=nobind
OMP_NUM_THREADS=N`. Several processes on one machine, such as the workers of tensor parallelism, share the cores.

## Safety
Answers do not change.
"""

import msgspec

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError, not_found
from unslow.think.case.bandwidth import cores_of, cpus_of, limits_of
from unslow.think.case.narrative import ThreadTrial, gain_of, thread_trial, threads_of, times_as_fast
from unslow.think.case.placement import cpu_computes
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, fact_at
from unslow.think.causes._facts import cite, cite_comparison

MOST_PER_CORE = 2  # Threads that a core can run at once, where nobody says how many it does


def check(case: Case) -> Found | Absent:
    """Hold the threads against the CPUs that can run them at once; a trial with fewer that was faster decides."""
    if cpu_computes(case) is False:
        return Absent("all layers are on the GPU: the threads have next to nothing to do")
    tried = thread_trial(case)
    if tried and tried.slow_threads > tried.fast_threads > 0:
        words = f"{tried.fast_threads} threads instead of {tried.slow_threads} are {times_as_fast(tried.speeds)}"
        return _found(f"{words}: they wait for each other", (), tried.fast_threads, case, tried)
    counted = threads_of(case)
    if counted is None:
        raise MissingFactError(fact_at(case, "runtime.threads"), "runtime.threads")
    # The case without its CPU quota: that limits time, on all cores, and is a cause of its own
    none = not_found("a quota is no number of cores")
    cpu = msgspec.structs.replace(case.machine.cpu, quota_cpus=none)
    without_quota = msgspec.structs.replace(
        case,
        machine=msgspec.structs.replace(case.machine, cpu=cpu),
        runtime=msgspec.structs.replace(case.runtime, quota_cpus=none),
    )
    (threads, fact), case = counted, without_quota
    cores = cores_of(case)
    if threads <= cores:
        return Absent(f"{threads} threads, {cores:g} cores")
    # Threads that can run at once; where only cores were counted, as many as cores ever run
    known = any(isinstance(f, Known) for f in (cpu.logical_cpus, cpu.threads_per_core)) or bool(limits_of(case))
    cpus = cpus_of(case) * (1 if known else MOST_PER_CORE)
    if threads <= cpus and not tried:
        return Absent(f"{threads} threads on {cores:g} cores that run {cpus:g} at once")
    words = f"{threads} threads share {cores:g} cores and wait for each other after every operation"
    shown = (cite(case, fact, f"{cores:g} cores"),) if fact == "runtime.threads" else ()
    return _found(words, (*shown, cite(case, "machine.cpu.physical_cores")), max(1, int(cores)), case, tried)


def _found(because: str, evidence: Citations, best: int, case: Case, tried: ThreadTrial | None) -> Found:
    cure = Cure(threads=best)
    return Found(
        because=because,
        evidence=(*evidence, *((cite_comparison(case, tried.speeds),) if tried else ())),
        cure=cure,
        remedies=(Remedy(Knob.THREADS.to(best, "one thread for each core"), cure),),
        speedup=gain_of(tried.speeds) if tried else None,
    )


CAUSE = Cause(
    title="More threads than cores",
    phase="decode",
    needs=(("runtime.threads", "account.comparisons"), ("machine.cpu.physical_cores", "account.comparisons")),
    check=check,
    ask="{cpu_cores}, and the number of threads: {command_line}",
)
