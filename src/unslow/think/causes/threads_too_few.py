"""The CPU computes with fewer threads than it has cores, and more would help.

## Why it is slow
One core can't read memory as fast as all of them together, nor multiply as fast. Until the memory's bandwidth is used
up, every further core adds its share.

## How to confirm
`n_threads` in the log is below the number of physical cores, and `llama-bench -m MODEL -n 64 -t 4,8,16` grows with the
threads.

## What it is not
Bandwidth that is used up already: then more threads give nothing. On a hybrid CPU only the performance cores count,
and cores that other programs use do not.

## How to fix
Leave the number of threads to the runtime, or set it to the number of physical cores. llama.cpp: drop `-t`, or `-t N`;
Ollama: drop `num_thread`; LM Studio: "CPU Thread Pool Size"; Transformers: `torch.set_num_threads(N)`; vLLM on a CPU:
`VLLM_CPU_OMP_THREADS_BIND=auto`.

## Safety
Answers do not change. The machine has less left for other work.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import MissingFactError
from unslow.think.case.bandwidth import cores_of
from unslow.think.case.narrative import (
    WORTH_COMPARING,
    experiment_on,
    fewer_are_faster,
    gain_of,
    is_clear,
    is_report,
    remarks_on,
    thread_trial,
    threads_of,
    times_as_fast,
)
from unslow.think.case.placement import cpu_computes
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, fact_at, first_to_decide
from unslow.think.causes._facts import ask_for, cite, cite_comparison, cite_remarks, must_predict

SHOW = "{try_threads}"
ROUNDING = 0.25  # Of a core: what every desktop does beside
FEW = 4
"""Cores for each thread: so few threads read less than any common memory gives, and compute slower than it is read."""
MANY_LEFT = 2  # Cores for each thread: where as many idle, more threads still read memory faster


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the threads against the cores, and see whether more of them would still be faster."""
    if cpu_computes(case) is False:
        return Absent("all layers are on the GPU: the threads have next to nothing to do")
    return first_to_decide(case, _by_trial, _by_idle_cores, _by_count)


def _by_trial(case: Case) -> Found | None:
    """More threads that were faster, with both numbers."""
    tried = thread_trial(case)
    told = fewer_are_faster(tried.speeds) if tried else None
    if not tried or told or not 0 < tried.slow_threads < tried.fast_threads:
        return None
    words = f"{tried.fast_threads} threads instead of {tried.slow_threads} are {times_as_fast(tried.speeds)}"
    return _found(words, (cite_comparison(case, tried.speeds),), tried.fast_threads, gain_of(tried.speeds))


def _by_idle_cores(case: Case) -> Found | None:
    """Somebody sees cores idle where the CPU computes everything, and finds it slow."""
    said, counted = remarks_on(case, Topic.CORES_IDLE), threads_of(case)
    if not said or not cpu_computes(case) or not is_report(case) or remarks_on(case, Topic.SATURATED):
        return None
    cores = int(case.machine.cpu.physical_cores.value_or(0))
    if cores and counted and MANY_LEFT * counted[0] > cores:
        return None
    return _found(f"only some of the cores compute: {said[0].text}", cite_remarks(case, said[:1]), cores or None, None)


def _by_count(case: Case) -> Found | Absent | Suspected:
    counted = threads_of(case)
    if counted is None:
        raise MissingFactError(fact_at(case, "runtime.threads"), "runtime.threads")
    # Cores that another thread would gain from: the fast ones of a hybrid CPU, without those that others use
    (threads, fact), there, cpu = counted, cores_of(case), case.machine.cpu
    fast = cpu.performance_cores.value_or(0) or cpu.physical_cores.value_or(0) - cpu.efficiency_cores.value_or(0)
    most, others = min(there, fast) if fast > 0 else there, case.run.others_cpus.value_or(0.0)
    cores = max(1, int(most - min(most, others) + ROUNDING))
    if threads >= cores:
        why = f": others use {others:.1f}" if others > ROUNDING else " are fast ones"
        return Absent(f"{threads} threads, {cores} cores{f' of {int(there)}{why}' if cores < int(there) else ''}")
    tried = experiment_on(case, Topic.THREADS)
    if remarks_on(case, Topic.SATURATED) or (tried and not is_clear(tried)):
        return Absent("more threads were tried and gave nothing: the memory's bandwidth is used up")
    fewer = fewer_are_faster(tried) if tried else None
    if tried and fewer is None:
        return Suspected(tried.text, "which of the two speeds is that with more threads", SHOW)
    if fewer:
        return Absent("fewer threads were tried and were faster")
    shown = (cite(case, fact, f"{cores} cores"),) if fact == "runtime.threads" else ()
    evidence = (*shown, cite(case, "machine.cpu.physical_cores"))
    words = f"{threads} threads compute on {cores} cores"
    if tried:
        return _found(words, (*evidence, cite_comparison(case, tried)), cores, gain_of(tried))
    # Without a measured bandwidth it is only sure where next to none compute
    if FEW * threads > cores:
        ask_for(case, "machine.memory.read_bytes_per_s", SHOW)
    gain = must_predict(case).seconds.mid / must_predict(case, Cure(threads=cores)).seconds.mid
    if gain < WORTH_COMPARING:
        return Absent(f"{threads} of {cores} cores already use the memory's bandwidth")
    return _found(f"{words}, and all of them would be {gain:.1f} times as fast", evidence, cores, None)


def _found(because: str, evidence: Citations, cores: int | None, speedup: float | None) -> Found:
    cure = Cure(threads=cores)
    return Found(
        because, evidence, cure, (Remedy(Knob.THREADS.to(cores, "one thread for each core"), cure),), speedup=speedup
    )


CAUSE = Cause(
    title="Fewer threads than cores",
    phase="decode",
    needs=(
        ("runtime.threads", "account.comparisons", "account.remarks"),
        ("machine.cpu.physical_cores", "account.comparisons", "account.remarks"),
    ),
    check=check,
    ask=SHOW,
)
