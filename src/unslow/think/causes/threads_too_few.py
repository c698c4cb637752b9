"""The CPU computes with fewer threads than it has cores, and more would help.

## Why it is slow
One core can't read memory as fast as all of them together, nor multiply as fast. Until memory bandwidth is saturated,
every further core adds its share.

## How to confirm
`n_threads` in the log is below the number of physical cores, and `llama-bench -m MODEL -n 64 -t 4,8,16` gets faster
with more threads.

## What it is not
Saturated memory bandwidth: then more threads gain nothing. On a hybrid CPU only the performance cores count, and cores
that other programs use do not. vLLM on a CPU keeps one core for its scheduler and its API server: on two cores two
threads were a third slower than one.

## How to fix
Leave the number of threads to the runtime, or set it to the number of physical cores. llama.cpp: drop `-t`, or `-t N`;
Ollama: drop `num_thread`; LM Studio: "CPU Thread Pool Size"; Transformers: `torch.set_num_threads(N)`; vLLM on a CPU:
`VLLM_CPU_OMP_THREADS_BIND=auto`.

## Safety
Answers do not change. The machine has less left for other work.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.think.case.cure import Cure
from unslow.think.case.host import ROUNDING
from unslow.think.case.narrative import WORTH_COMPARING, fewer_are_faster, is_clear, times_as_fast
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding, threads_have_no_work

ASK = "{try_threads}"
WHY = "one thread per core"
FEW = 4  # Cores per thread: so few threads read less than any common memory delivers, and compute slower than they read
MANY_LEFT = 2  # Cores per thread: with this many idle, more threads still read memory faster


def more_were_faster(case: CaseView) -> Found | None:
    """A user tried two numbers of threads, and the larger one was faster."""
    trial = case.narrative.thread_trial
    if not trial or fewer_are_faster(trial.speeds) or not 0 < trial.slow_threads < trial.fast_threads:
        return None
    threads = trial.fast_threads
    return finding(
        case,
        f"{threads} threads instead of {trial.slow_threads} are {times_as_fast(trial.speeds)}",
        cure=Cure(threads=threads),
        fixes=[Knob.THREADS.to(threads, WHY)],
        trial=trial.speeds,
    )


def idle_cores_seen(case: CaseView) -> Found | None:
    """A user saw idle cores while the CPU computes everything, and finds it slow."""
    said, count = case.narrative.remarks_on(Topic.CORES_IDLE), case.narrative.thread_count
    if not said or case.narrative.remarks_on(Topic.SATURATED):
        return None
    cores = case.machine.cpu.physical_cores.get() or None
    enough = cores and count and MANY_LEFT * count[0] > cores
    if enough or not case.placement.cpu_computes or not case.narrative.is_report:
        return None
    because = f"only some of the cores compute: {said[0].text}"
    return finding(case, because, said[0], cure=Cure(threads=cores), fixes=[Knob.THREADS.to(cores, WHY)])


def threads_against_cores(case: CaseView) -> Found | Absent | Suspected:
    """The number of threads against the free cores, and whether a trial or the memory bandwidth leaves a gain."""
    threads, fact = case.narrative.need_thread_count()
    cores, there, others = case.host.free_fast_cores, int(case.host.cores), case.run.others_cpus.get() or 0.0
    if threads >= cores:
        why = "its scheduler and its API server need one" if case.host.reserved_cores else "the rest are slow"
        why = f"others use {others:.1f}" if others > ROUNDING else why
        usable = f"{cores} of {there} cores usable: {why}" if cores < there else f"{cores} core{'s' * (cores != 1)}"
        return Absent(f"{threads} thread{'s' * (threads != 1)}, {usable}")
    trial = case.narrative.experiment_on(Topic.THREADS)
    if case.narrative.remarks_on(Topic.SATURATED) or (trial and not is_clear(trial)):
        return Absent("more threads were tried and gained nothing: memory bandwidth is saturated")
    fewer = fewer_are_faster(trial) if trial else None
    if trial and fewer is None:
        return Suspected(trial.text, "which of the two speeds is with more threads", ASK)
    if fewer:
        return Absent("fewer threads were tried and were faster")
    because = f"{threads} thread{' computes' if threads == 1 else 's compute'} on {cores} cores"
    if not trial:
        if FEW * threads > cores:  # without a measured bandwidth only next to no threads are surely too few
            case.need("machine.memory.read_bytes_per_s")
        gain = case.speed.need_prediction().seconds.mid / case.speed.need_prediction(Cure(threads=cores)).seconds.mid
        if gain < WORTH_COMPARING:
            return Absent(f"{threads} of {cores} cores already saturate memory bandwidth")
        because = f"{because}, and using all of them would be {gain:.1f} times as fast"
    return finding(
        case,
        because,
        *([case.cite(fact, f"{cores} cores")] if fact == "runtime.compute.threads" else ()),
        "machine.cpu.physical_cores",
        cure=Cure(threads=cores),
        fixes=[Knob.THREADS.to(cores, WHY)],
        trial=trial,
    )


CAUSE = Cause(
    title="Fewer threads than cores",
    phase="decode",
    needs=all_of(
        "runtime.compute.threads or account.comparisons or account.remarks",
        "machine.cpu.physical_cores or account.comparisons or account.remarks",
    ),
    routes=(
        Route("counted", threads_have_no_work),
        Route("told", more_were_faster),
        Route("told", idle_cores_seen),
        Route("counted", threads_against_cores),
    ),
    ask=ASK,
)
