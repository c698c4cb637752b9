"""The runtime starts more threads than its container, or its cpuset, may run at once.

## Why it is slow
The threads meet at a barrier after every operation. Under a CPU quota (`docker --cpus`, a limit in Kubernetes) the
kernel stops some of them for the rest of each period, and all the others wait; under a cpuset they share the CPUs that
are left. Runtimes count the CPUs of the machine, not the quota: the container sees all of them.

An engine that computes on GPUs alone has few threads, but they launch every kernel: where a quota stops them most of
the time, the GPU waits for its next work.

## How to confirm
The quota (`cpu.max`) or the cpuset of the **runtime's** process is smaller than its number of threads, and `cpu.stat`
of its cgroup shows `nr_throttled` growing while tokens are generated (a cpuset is never throttled): `cat
/proc/PID/cgroup; grep Cpus_allowed_list /proc/PID/status`.

## What it is not
A quota that is never reached: the throttled periods do not grow. Nor a machine without any limit, where too many
threads are another cause.

## How to fix
Threads: the quota rounded down. llama.cpp `-t N -tb N`, Ollama `num_thread`, LM Studio "CPU Thread Pool Size",
Transformers `OMP_NUM_THREADS=N`, vLLM `VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=N`. Or raise the quota
(`docker update --cpus N`), or give whole CPUs (`--cpuset-cpus`) instead of a quota.

## Safety
Answers do not change.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import LARGEST_COUNT, Known
from unslow.think.case.bandwidth import allowed_of, limits_of, quota_of
from unslow.think.case.narrative import blames, experiment_on, gain_of, is_clear, is_report, remarks_on
from unslow.think.case.placement import computes_all_on_gpus, cpu_computes
from unslow.think.case.slowness import generates_slowly
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._facts import ask_for, cite, cite_comparison, cite_remarks

THROTTLED = 0.05  # Of the periods: fewer are noise
MOSTLY = 0.2  # Of the periods: a runtime that is stopped so often has more threads than its quota, whatever that is
SHOW = "where the runtime runs, before and after a generation: {cpu_limit}"


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the threads against the CPUs that the quota allows, and look for throttled periods."""
    if cpu_computes(case) is False or computes_all_on_gpus(case):
        throttled, counted = _throttled(case)
        if throttled is None or throttled < MOSTLY or not generates_slowly(case):
            return Absent("all layers are on the GPU: the threads have next to nothing to do")
        # An engine whose kernels wait to be launched: its own threads, few as they are, are stopped most of the time
        stops = f"a CPU quota stops the engine in {throttled:.0%} of the periods"
        change = Knob.CPU_QUOTA.to(None, "a higher quota, or none: launching and scheduling take whole CPUs")
        words = f"{stops}, and the GPU waits for its next kernels"
        return Found(words, counted, Cure(), (Remedy(change, Cure()),))
    return first_to_decide(case, _by_words, _by_periods, _by_count)


def _by_periods(case: Case) -> Found | Absent | None:
    """How often the kernel stopped the threads: never is an answer, and so is mostly, whatever the quota is."""
    throttled, counted = _throttled(case)
    if throttled is None or (limits_of(case) and _by_cpuset(case)):
        return None
    if throttled < THROTTLED:
        return Absent(f"throttled in {throttled:.0%} of the periods")
    cpu = case.machine.cpu
    threads_known = any(isinstance(f, Known) for f in (case.runtime.threads, cpu.physical_cores, cpu.logical_cpus))
    if throttled < MOSTLY or (limits_of(case) and threads_known):
        return None
    words = f"a CPU quota stops the threads in {throttled:.0%} of the periods, and all wait for those that are stopped"
    return Found(words, counted, remedies=(Remedy(Knob.THREADS.to(None, "as many threads as the quota has CPUs")),))


def _by_count(case: Case) -> Found | Absent:
    """The number of threads beside that of the CPUs."""
    limits = limits_of(case)
    if not limits:
        ask_for(case, "machine.cpu.quota_cpus", SHOW)
    allowed = min(limits.values(), default=1.0)  # CPUs that the container may use at once
    (threads, fact), (throttled, counted) = _threads(case), _throttled(case)
    if threads <= allowed and (throttled or 0.0) >= MOSTLY:
        ask_for(case, quota_of(case)[1], SHOW)  # something stops them: a quota that nobody read
    if threads <= allowed:
        return Absent(f"{threads:g} threads, {allowed:g} CPUs allowed")
    if not throttled and _are_all(case, allowed):
        return Absent(f"all {allowed:g} CPUs of the machine are allowed")
    tried = experiment_on(case, Topic.CPU_QUOTA, Topic.THREADS)
    proven = tried if is_clear(tried) else None
    if throttled is None and not proven and not _is_settled(case):
        ask_for(case, "run.cpu_throttled_fraction", SHOW)
    stopped = f", stopped in {throttled:.0%} of the periods" if throttled else ""
    waits = "those that share a CPU" if _by_cpuset(case) and not throttled else "those that are stopped"
    cpus, cure = "1 CPU is" if allowed == 1 else f"{allowed:g} CPUs are", Cure(threads=max(1, int(allowed)))
    # Fewer threads, or more of what limits them: time, or the CPUs of a set
    fewer = Knob.THREADS.to(cure.threads, "one thread for each CPU that is allowed")
    more = Knob.CPU_QUOTA.to(int(threads), "a quota of as many CPUs as there are threads")
    if _by_cpuset(case):
        more = Knob.CPU_QUOTA.to(None, "more CPUs in its set: `docker update --cpuset-cpus`, `taskset`")
    return Found(
        f"{threads:g} threads where {cpus} allowed{stopped}: all wait for {waits}",
        (
            cite(case, fact, f"{allowed:g} CPUs allowed"),
            *tuple(cite(case, path) for path, value in limits.items() if value == allowed)[:1],
            *counted,
            *((cite_comparison(case, proven),) if proven else ()),
        ),
        cure,
        (Remedy(fewer, cure), Remedy(more)),
        speedup=gain_of(proven) if proven else None,
    )


def _are_all(case: Case, allowed: float) -> bool:
    """Whether so many CPUs are no limit: as many as there are; one with more cores than that need not be counted."""
    cpu = case.machine.cpu
    if cpu.physical_cores.value_or(0) > allowed or is_report(case):
        return allowed >= cpu.logical_cpus.value_or(LARGEST_COUNT)
    return bool(allowed >= ask_for(case, "machine.cpu.logical_cpus", SHOW))


def _is_settled(case: Case) -> bool:
    """Whether the numbers alone decide: threads that wait for each other spin, and so use up any quota."""
    known, quota = isinstance(case.runtime.threads, Known), isinstance(quota_of(case)[0], Known)
    computes = known and quota and bool(cpu_computes(case))
    return _by_cpuset(case) or computes or (blames(case, "decode", "prefill") and (known or quota))


def _by_words(case: Case) -> Found | None:
    """Somebody who sees as many threads as the host has CPUs, in a container that may use fewer."""
    said = remarks_on(case, Topic.THREADS_OF_HOST)
    limited = limits_of(case) or remarks_on(case, Topic.CPU_QUOTA)
    if not said or not limited or not is_report(case):
        return None
    change = Knob.THREADS.to(None, "as many threads as the container may use CPUs")
    words = f"the threads follow the host, not the quota: {said[0].text}"
    return Found(words, cite_remarks(case, said[:1]), remedies=(Remedy(change),))


def _by_cpuset(case: Case) -> bool:
    """Whether it is a cpuset or an affinity that leaves it fewer CPUs than there are, rather than a quota."""
    allowed, quota = allowed_of(case)[0], quota_of(case)[0]
    logical = case.machine.cpu.logical_cpus.value_or(0)
    return isinstance(allowed, Known) and allowed.value < logical and allowed.value <= quota.value_or(logical)


def _threads(case: Case) -> tuple[float, str]:
    """The threads; where nobody counted them, those that a runtime starts by default on the CPUs it sees."""
    cpu = case.machine.cpu
    if isinstance(case.runtime.threads, Known):
        return case.runtime.threads.value, "runtime.threads"
    if isinstance(cpu.physical_cores, Known):
        return cpu.physical_cores.value, "machine.cpu.physical_cores"
    logical = ask_for(case, "machine.cpu.logical_cpus", SHOW)
    return logical // cpu.threads_per_core.value_or(2), "machine.cpu.logical_cpus"


def _throttled(case: Case) -> tuple[float | None, Citations]:
    """The share of periods in which the kernel stopped it: while tokens were generated, else since it started."""
    if isinstance(case.run.cpu_throttled_fraction, Known):
        return case.run.cpu_throttled_fraction.value, (cite(case, "run.cpu_throttled_fraction"),)
    periods, stopped = case.machine.cpu.periods.value_or(0), case.machine.cpu.throttled_periods
    if periods and isinstance(stopped, Known):
        return stopped.value / periods, (cite(case, "machine.cpu.throttled_periods", f"{periods} periods"),)
    return None, ()


CAUSE = Cause(
    title="More threads than the CPU quota allows",
    phase="decode",
    needs=(
        (
            "runtime.quota_cpus",
            "runtime.allowed_cpus",
            "machine.cpu.quota_cpus",
            "machine.cpu.allowed_cpus",
            "run.cpu_throttled_fraction",
            "account.remarks",
        ),
    ),
    check=check,
    explains=("threads_exceed_cores", "cpu_contended"),
    not_on=("macOS", "Windows"),
    ask=SHOW,
)
