"""The runtime starts more threads than the container may run at once.

## Why it is slow
The threads meet at a barrier after every operation. Under a CPU quota (`docker --cpus`, a limit in Kubernetes) the
kernel stops some of them for the rest of each period, and all the others wait. Runtimes count the CPUs of the machine,
not the quota: the container sees all of them.

## How to confirm
`cpu.stat` of the container's cgroup shows `nr_throttled` growing while tokens are generated, and the quota (`cpu.max`)
is smaller than the number of threads.

## How to fix
Set the number of threads to the quota rounded down, or raise the quota, or give whole CPUs (`--cpuset-cpus`) instead.

## Safety
Answers do not change.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.account import gain_of, remarks_on
from unslow.think.adapt.experiments import blames, experiment_on, is_clear, is_report
from unslow.think.adapt.who_computes import cpu_computes
from unslow.think.adapt.work import Cure
from unslow.think.causes._asking import ask_for
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
from unslow.think.causes._routes import cite_comparison, cite_remarks
from unslow.think.report import Evidence

MOSTLY = 0.2
"""Of the periods: a runtime that is stopped so often has more threads than its quota, whatever that is."""
THROTTLED = 0.05
"""Of the periods: fewer are noise."""
SHOW = "in the container, before and after a generation: `cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu.stat; nproc`"


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the threads against the CPUs that the quota allows, and look for throttled periods."""
    if cpu_computes(case) is False:
        return Absent("all layers are on the GPU: the threads have next to nothing to do")
    if (seen := _by_words(case)) is not None:
        return seen
    throttled, counted = _throttled(case)
    if throttled is not None and throttled < THROTTLED:
        return Absent(f"throttled in {throttled:.0%} of the periods")
    unknown = not _limits(case) or not _counted(case)
    if throttled is not None and throttled >= MOSTLY and unknown:
        words = (
            f"a CPU quota stops the threads in {throttled:.0%} of the periods, and all wait for those that are stopped"
        )
        return Found(words, counted, remedies=(Remedy(Knob.THREADS.to(None, "as many threads as the quota has CPUs")),))
    allowed, quota = _allowed(case)
    threads, fact = _threads(case)
    if threads <= allowed:
        return Absent(f"{threads:g} threads, {allowed:g} CPUs allowed")
    tried = experiment_on(case, Topic.CPU_QUOTA, Topic.THREADS)
    proven = tried if is_clear(tried) else None
    told = isinstance(case.runtime.threads, Known) or quota
    if throttled is None and not proven and not (blames(case, "decode", "prefill") and told):
        ask_for(case, "run.cpu_throttled_fraction", SHOW)
    stopped = f", stopped in {throttled:.0%} of the periods" if throttled is not None else ""
    return _found(
        f"{threads:g} threads where {allowed:g} CPUs are allowed{stopped}: all wait for those that are stopped",
        (
            cite(case, fact, f"{allowed:g} CPUs allowed"),
            *counted,
            *((cite_comparison(case, proven),) if proven else ()),
        ),
        (max(1, int(allowed)), int(threads)),
        gain_of(proven) if proven else None,
    )


def _by_words(case: Case) -> Found | None:
    """Somebody who sees as many threads as the host has CPUs, in a container that may use fewer."""
    said = remarks_on(case, Topic.THREADS_OF_HOST)
    limited = _limits(case) or remarks_on(case, Topic.CPU_QUOTA)
    if not said or not limited or not is_report(case):
        return None
    change = Knob.THREADS.to(None, "as many threads as the container may use CPUs")
    return Found(
        f"the threads follow the host, not the quota: {said[0].text}",
        cite_remarks(case, said[:1]),
        remedies=(Remedy(change),),
    )


def _found(because: str, evidence: tuple[Evidence, ...], numbers: tuple[int, int], speedup: float | None) -> Found:
    allowed, threads = numbers
    cure = Cure(threads=allowed)
    fewer = Remedy(Knob.THREADS.to(allowed, "one thread for each CPU that is allowed"), cure)
    more = Remedy(Knob.CPU_QUOTA.to(threads, "a quota of as many CPUs as there are threads"))
    return Found(because, evidence, cure, (fewer, more), speedup=speedup)


def _allowed(case: Case) -> tuple[float, bool]:
    """CPUs that the container may use at once, and whether a quota says so."""
    limits = _limits(case)
    if not limits:
        ask_for(case, "machine.cpu.quota_cpus", SHOW)
    return min(limits, default=1.0), isinstance(case.machine.cpu.quota_cpus, Known)


def _counted(case: Case) -> bool:
    """Whether anything tells how many threads there are."""
    cpu = case.machine.cpu
    return any(isinstance(f, Known) for f in (case.runtime.threads, cpu.physical_cores, cpu.logical_cpus))


def _limits(case: Case) -> list[float]:
    cpu = case.machine.cpu
    return [f.value for f in (cpu.quota_cpus, cpu.allowed_cpus) if isinstance(f, Known) and f.value > 0]


def _threads(case: Case) -> tuple[float, str]:
    """The threads; where nobody counted them, those that a runtime starts by default on the CPUs it sees."""
    cpu = case.machine.cpu
    if isinstance(case.runtime.threads, Known):
        return case.runtime.threads.value, "runtime.threads"
    if isinstance(cpu.physical_cores, Known):
        return cpu.physical_cores.value, "machine.cpu.physical_cores"
    logical = ask_for(case, "machine.cpu.logical_cpus", SHOW)
    return logical // cpu.threads_per_core.value_or(2), "machine.cpu.logical_cpus"


def _throttled(case: Case) -> tuple[float | None, tuple[Evidence, ...]]:
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
    needs=(("machine.cpu.quota_cpus", "machine.cpu.allowed_cpus", "run.cpu_throttled_fraction", "account.remarks"),),
    check=check,
    explains=("threads_exceed_cores", "cpu_contended"),
    ask=SHOW,
)
