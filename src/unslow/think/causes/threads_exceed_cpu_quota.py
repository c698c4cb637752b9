"""The runtime starts more threads than its container, or its cpuset, may run at once.

## Why it is slow
The threads meet at a barrier after every operation. Under a CPU quota (`docker --cpus`, a limit in Kubernetes) the
kernel stops some of them for the rest of each period, and all the others wait; under a cpuset they share the CPUs that
are left. Runtimes count the CPUs of the machine, not the quota: the container sees all of them.

An engine that computes on GPUs alone has few threads, but they launch every kernel: where a quota stops them most of
the time, or they fill the few CPUs of a cpuset (`taskset`), the GPU waits for its next kernel.

## How to confirm
The quota (`cpu.max`) or the cpuset of the **runtime's** process is smaller than its number of threads, and
`nr_throttled` in the `cpu.stat` of its cgroup grows during decode (a cpuset is never throttled): `cat /proc/PID/cgroup;
grep Cpus_allowed_list /proc/PID/status`.

## What it is not
A quota that is never reached: the throttled periods do not grow. Nor a machine without any limit, where too many
threads are another cause.

## How to fix
Threads: the quota rounded down, if it is at least one CPU. llama.cpp `-t N -tb N`, Ollama `num_thread`,
LM Studio "CPU Thread Pool Size", Transformers `OMP_NUM_THREADS=N`, vLLM `VLLM_CPU_OMP_THREADS_BIND=nobind
OMP_NUM_THREADS=N`. Or raise the quota (`docker update --cpus N`), or give whole CPUs (`--cpuset-cpus`) instead of a
quota.

## Safety
Answers do not change.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.cure import Cure
from unslow.think.case.host import MOST_WAITING, WAITING_SHARE
from unslow.think.case.narrative import is_clear
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, all_of, finding

THROTTLED = 0.05  # Of the periods: fewer are noise
MORE_CPUS = Knob.CPU_QUOTA.to(None, "more CPUs in its set: `docker update --cpuset-cpus`, `taskset`")
MOSTLY = 0.2  # Of the periods: a runtime that is stopped this often has more threads than its quota, whatever that is


def throttled_beside_gpu(case: CaseView) -> Found | None:
    """Throttled CPU periods of an engine that computes on GPUs alone, whose few threads launch every kernel."""
    throttled = case.host.throttled_share
    on_gpus = case.placement.cpu_computes is False or case.placement.computes_all_on_gpus
    if not on_gpus or throttled is None or throttled < MOSTLY or not case.speed.is_slow:
        return None
    return finding(
        case,
        f"a CPU quota throttles the engine in {throttled:.0%} of the periods, and the GPU waits for its next kernels",
        case.host.cite_throttled_share,
        cure=Cure(),
        fixes=[Knob.CPU_QUOTA.to(None, "a higher quota, or none: launching and scheduling take whole CPUs")],
    )


def few_cpus_beside_gpu(case: CaseView) -> Found | None:
    """An engine on GPUs that fills the few CPUs of its set, and waits for them."""
    on_gpus = case.placement.cpu_computes is False or case.placement.computes_all_on_gpus
    if not on_gpus or not case.host.fills_its_cpus or case.host.waiting_share < WAITING_SHARE:
        return None
    (allowed, fact), waiting = case.host.allowed_cpus, case.host.waiting_share
    cpus = case.need("machine.cpu.logical_cpus")
    return finding(
        case,
        f"the engine may use {allowed.need()} of {cpus} CPUs, and fills what it may use: it waits for a CPU "
        f"{waiting:.0%} of the time",
        case.cite(fact, f"{cpus} CPUs"),
        "run.own_cpus",
        cure=Cure(),
        fixes=[MORE_CPUS],
        speedup=1 / (1 - min(MOST_WAITING, waiting)),
    )


def all_on_gpu(case: CaseView) -> Absent | None:
    """Apart from that, threads matter only where the CPU computes a part of the model."""
    is_idle = case.placement.cpu_computes is False or case.placement.computes_all_on_gpus
    return Absent("all layers are on the GPU: the threads have next to nothing to do") if is_idle else None


def threads_of_host_seen(case: CaseView) -> Found | None:
    """A user saw as many threads as the host has CPUs, in a container that may use fewer."""
    said = case.narrative.remarks_on(Topic.THREADS_OF_HOST)
    limited = case.host.cpu_limits or case.narrative.remarks_on(Topic.CPU_QUOTA)
    if not said or not limited or not case.narrative.is_report:
        return None
    change = Knob.THREADS.to(None, "as many threads as the container may use CPUs")
    return finding(case, f"the threads follow the host, not the quota: {said[0].text}", said[0], fixes=[change])


def throttled_periods(case: CaseView) -> Found | Absent | None:
    """The share of CPU periods in which the kernel stopped the threads: next to never, or most of the time."""
    throttled, limits = case.host.throttled_share, case.host.cpu_limits
    if throttled is None or (limits and case.host.is_limited_by_cpuset):
        return None
    if throttled < THROTTLED:
        return Absent(f"throttled in {throttled:.0%} of the periods")
    cpu = case.machine.cpu
    counts = (case.runtime.compute.threads, cpu.physical_cores, cpu.logical_cpus)
    if throttled < MOSTLY or (limits and any(isinstance(count, Known) for count in counts)):
        return None
    return finding(
        case,
        f"a CPU quota throttles the threads in {throttled:.0%} of the periods, and all wait for the throttled ones",
        case.host.cite_throttled_share,
        fixes=[Knob.THREADS.to(None, "as many threads as the quota has CPUs")],
    )


def quota_below_one_cpu(case: CaseView) -> Found | None:
    """A quota of less than one CPU, which a single thread exceeds: no number of threads saves anything."""
    quota, throttled = case.host.quota[0].get(), case.host.throttled_share
    if not quota or quota >= 1 or throttled is None or throttled < MOSTLY:
        return None
    threads, fact = case.host.started_threads
    return finding(
        case,
        f"a quota of {quota:g} CPUs throttles its threads in {throttled:.0%} of the periods",
        case.cite(fact, f"{quota:g} CPUs allowed"),
        case.host.quota[1],
        case.host.cite_throttled_share,
        cure=Cure(quota_cpus=threads),
        fixes=[Knob.CPU_QUOTA.to(int(threads), "a quota of as many CPUs as there are threads")],
    )


def threads_against_limits(case: CaseView) -> Found | Absent:
    """The number of threads against the CPUs of the quota or the cpuset."""
    limits, throttled, by_cpuset = case.host.cpu_limits, case.host.throttled_share, case.host.is_limited_by_cpuset
    if not limits:
        case.need("machine.cpu.quota_cpus")
    allowed = min(limits.values(), default=1.0)
    threads, fact = case.host.started_threads
    if threads <= allowed:
        if throttled is not None and throttled >= MOSTLY:
            case.need(case.host.quota[1])  # something stops them: a quota that was not read
        return Absent(f"{threads:g} threads, {allowed:g} CPUs allowed")
    if not throttled and _are_all(case, allowed):
        return Absent(f"all {allowed:g} CPUs of the machine are allowed")
    trial = case.narrative.experiment_on(Topic.CPU_QUOTA, Topic.THREADS)
    proof = trial if is_clear(trial) else None
    if throttled is None and not proof and not by_cpuset:
        # Threads that wait for each other spin, and so use up any quota: where both are known, the numbers decide
        known, quota = isinstance(case.runtime.compute.threads, Known), isinstance(case.host.quota[0], Known)
        blamed = case.narrative.blames("decode", "prefill") and (known or quota)
        if not blamed and not (known and quota and case.placement.cpu_computes):
            case.need("run.cpu_throttled_fraction")
    if not throttled and case.placement.cpu_computes is None and not case.narrative.is_report:
        case.need("machine.gpus")  # beside a GPU that computes everything threads have next to nothing to do
    stopped = f", throttled in {throttled:.0%} of the periods" if throttled else ""
    waited_for = "those that share a CPU" if by_cpuset and not throttled else "the throttled ones"
    cpus, cure = "1 CPU is" if allowed == 1 else f"{allowed:g} CPUs are", Cure(threads=max(1, int(allowed)))
    larger = Knob.CPU_QUOTA.to(int(threads), "a quota of as many CPUs as there are threads")
    return finding(
        case,
        f"{threads:g} threads where {cpus} allowed{stopped}: all wait for {waited_for}",
        case.cite(fact, f"{allowed:g} CPUs allowed"),
        *[path for path, limit in limits.items() if limit == allowed][:1],
        case.host.cite_throttled_share,
        cure=cure,
        fixes=[Knob.THREADS.to(cure.threads, "one thread per allowed CPU"), Remedy(MORE_CPUS if by_cpuset else larger)],
        trial=proof,
    )


def _are_all(case: CaseView, allowed: float) -> bool:
    """Whether that many CPUs are no limit: the machine has no more. One with more cores need not be counted further."""
    cores, logical = case.machine.cpu.physical_cores.get(), case.machine.cpu.logical_cpus.get()
    if case.narrative.is_report or (cores is not None and cores > allowed):
        return logical is not None and allowed >= logical
    return bool(allowed >= case.need("machine.cpu.logical_cpus"))


CAUSE = Cause(
    title="More threads than the CPU quota allows",
    phase="decode",
    needs=all_of(
        "runtime.process.quota_cpus or runtime.process.allowed_cpus or machine.cpu.quota_cpus or "
        "machine.cpu.allowed_cpus or run.cpu_throttled_fraction or account.remarks"
    ),
    routes=(
        Route("measured", throttled_beside_gpu),
        Route("measured", few_cpus_beside_gpu),
        Route("counted", all_on_gpu),
        Route("told", threads_of_host_seen),
        Route("measured", throttled_periods),
        Route("measured", quota_below_one_cpu),
        Route("counted", threads_against_limits),
    ),
    explains=("threads_exceed_cores", "cpu_contended"),
    not_on=("macOS", "Windows"),
    ask="where the runtime runs, before and after a generation: {cpu_limit}",
)
