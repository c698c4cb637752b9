"""The runtime computes with more threads than it has CPU cores to run them on.

## Why it is slow
The threads synchronize at a barrier after every operation. Where two of them share a core, all the others wait for the
second one, hundreds of times per token.

## How to confirm
llama.cpp prints `n_threads = T ... / L`: T is above the number of CPUs that the process may use. Sixteen threads on two
cores were 5.5 times slower than two.

Guides say that the number of threads matters for a model on the GPU, but it hardly does: they compute only what is on
the CPU.

## What it is not
Two threads per core with SMT: that is not oversubscription, and it gains little and loses little. Nor the threads of a
model that is entirely on the GPU.

## How to fix
Leave the number of threads to the runtime, or set it to the number of physical cores that it may use. llama.cpp: drop
`-t` and `-tb`, or `-t N`; Ollama: drop `num_thread`; LM Studio: "CPU Thread Pool Size"; Transformers:
`OMP_NUM_THREADS=N`; vLLM on a CPU, which otherwise counts the cores itself and keeps one for its scheduler and API
server: `VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=N`, one below the number of cores. Several processes on one
machine, such as tensor-parallel workers, share the cores.

## Safety
Answers do not change.
"""

from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.cure import Cure
from unslow.think.case.host import MOST_THREADS_PER_CORE
from unslow.think.case.narrative import times_as_fast
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, all_of, finding

WHY = "one thread per core"


def all_on_gpu(case: CaseView) -> Absent | None:
    """Whether the CPU computes a part of the model: otherwise threads hardly matter."""
    is_idle = case.placement.cpu_computes is False
    return Absent("all layers are on the GPU: the threads have next to nothing to do") if is_idle else None


def fewer_were_faster(case: CaseView) -> Found | None:
    """A user compared two thread counts, and the smaller one was faster."""
    trial = case.narrative.thread_trial
    if not trial or not trial.slow_threads > trial.fast_threads > 0:
        return None
    return finding(
        case,
        f"{trial.fast_threads} threads instead of {trial.slow_threads} are {times_as_fast(trial.speeds)}: "
        "with more, they wait for each other",
        cure=Cure(threads=trial.fast_threads),
        fixes=[Knob.THREADS.to(trial.fast_threads, WHY)],
        trial=trial.speeds,
    )


def threads_against_cores(case: CaseView) -> Found | Absent:
    """The number of threads against the cores that run them; a CPU quota is a cause of its own."""
    trial = case.narrative.thread_trial
    threads, fact = case.narrative.need_thread_count()
    host, cpu = case.without_cpu_quota.host, case.machine.cpu
    free = max(1, host.cores - host.reserved_cores)
    if threads <= free:
        return Absent(f"{threads} thread{'s' * (threads != 1)} on {host.cores:g} core{'s' * (host.cores != 1)}")
    # Two for each core where only cores were counted: no common CPU runs more
    is_counted = any(isinstance(fact, Known) for fact in (cpu.logical_cpus, cpu.threads_per_core))
    hardware_threads = host.cpus * (1 if is_counted or host.cpu_limits else MOST_THREADS_PER_CORE)
    if threads <= max(free, hardware_threads - host.reserved_cores) and not trial:
        return Absent(f"{threads} threads on {host.cores:g} cores with {hardware_threads:g} hardware threads")
    best = max(1, int(free))
    return finding(
        case,
        f"{threads} threads share {host.cores:g} cores and wait for each other after every operation",
        *([case.cite(fact, f"{host.cores:g} cores")] if fact == "runtime.compute.threads" else ()),
        "machine.cpu.physical_cores",
        cure=Cure(threads=best),
        fixes=[Knob.THREADS.to(best, WHY)],
        trial=trial.speeds if trial else None,
    )


CAUSE = Cause(
    title="More threads than cores",
    phase="decode",
    needs=all_of("runtime.compute.threads or account.comparisons", "machine.cpu.physical_cores or account.comparisons"),
    routes=(Route("counted", all_on_gpu), Route("told", fewer_were_faster), Route("counted", threads_against_cores)),
    ask="{cpu_cores}, and the number of threads: {command_line}",
)
