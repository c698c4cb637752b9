"""Other programs take the CPU during decode.

## Why it is slow
The runtime's threads meet at a barrier after every operation. When another program preempts one of them, all the
others wait for it: a busy loop on every core costs far more than half the speed.

## How to confirm
During decode, other processes use CPUs that the runtime's threads want, and those threads spend time on the run queue
(`/proc/PID/task/*/schedstat`, or the pressure in `/proc/pressure/cpu`). Windows and macOS: Task Manager or Activity
Monitor, by CPU.

In a virtual machine the hypervisor may give its CPUs to others: `st` in `top`, or `steal` in `mpstat 1`.

## What it is not
Threads of the runtime that wait for one another: it has too many of them. Nor other programs on cores that the runtime
does not want.

## How to fix
On any runtime: stop or move the other work, lower its priority (`renice 19 PID`), or leave it a core: one thread fewer
than cores (llama.cpp `-t N`, Ollama `num_thread`). Against other virtual machines on the same host only dedicated CPUs
help: a dedicated plan, or another host.

## Safety
Answers do not change. This tool names the other programs and never touches them.
"""

import statistics

from unslow.facts.knob import Change, Knob
from unslow.facts.machine import BusyProcess
from unslow.facts.values import Known
from unslow.think.case.cure import Cure
from unslow.think.case.host import MOST_WAITING, WAITING_SHARE, OtherProcesses
from unslow.think.case.software_renderer import find_renderer
from unslow.think.case.speed import SLOWEST
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding

STOPPED = 0.2  # Of the periods of a CPU quota
CROWD_SHARE = 0.5
"""Of the cores: where the runtime's own threads are oversubscribed, others must use this much to matter too."""
BUSY_PROCESS, FULL_SHARE = 0.3, 0.7
"""Of a CPU, and of what one more thread gets beside the runtime's: a process that uses less sleeps most of the time."""
OTHERS_SHARE = 0.10  # Of the cores: below it the runtime causes the waiting itself, as with too many threads
NICE = 10
"""From here on a process has a tenth of the weight of an ordinary one (kernel/sched/core.c, sched_prio_to_weight)."""
FOR_A_GPU = 2  # Cores: one for the thread that feeds a GPU, and one for the server
ASK = "while it generates: {cpu_load}"
OWN_ADDRESS = "run `unslow` against the address of the server itself, not of a proxy"


def cpus_of_others(case: CaseView) -> Found | Absent | Suspected | None:
    """CPUs that other processes used during decode, and the time that the runtime's threads waited for a CPU."""
    if not isinstance(case.run.others_cpus, Known):
        return None
    seen, cores = case.host.other_processes, case.host.cores
    if seen is None:
        words = "the server's own process is not known, and may be one of the others"
        return Suspected(words, "runtime.process.pid", OWN_ADDRESS)
    if case.host.cpu_pressure is None:
        case.need("run.waiting_for_cpu_s_per_token")
    each = case.sharing.each_rate
    rate = each.value if isinstance(each, Known) else float(case.need("run.decode_tokens_per_s"))
    token_s, all_cores = 1 / max(SLOWEST, rate), case.need("machine.cpu.physical_cores")
    harmless = _harmless(case, seen, cores, all_cores)
    if harmless:
        return harmless
    waiting = case.host.waiting_share
    if waiting < WAITING_SHARE:
        return Absent(f"others used {seen.cpus:.1f} cores, but waiting for a CPU explains {waiting:.0%} of the time")
    # The client computes less than the server, so it waits less: what it loses beyond that is another cause's
    served, lost = [c.prefill_s + c.decode_s for c in case.waits.completions], case.waits.client_s
    slows_client = lost is None or not served
    if lost is not None and served and isinstance(case.run.waiting_for_cpu_s_per_token, Known):
        slows_client = not case.waits.client_loss_is_constant and lost <= waiting * statistics.median(served)
    per_token = f"{token_s:.4g} s per token, all threads together"
    return finding(
        case,
        f"{_who(case, seen, all_cores)}; the runtime's threads spent {waiting:.0%} of the time waiting for a CPU or "
        "for each other",
        case.cite("run.others_cpus", f"{all_cores:g} cores"),
        case.cite_known("run.waiting_for_cpu_s_per_token", reference=per_token),
        cure=Cure(alone=True),
        fixes=[_change(seen.processes)],
        explains=CAUSE.explains if slows_client else CAUSE.explains[:1],
        speedup=1 / (1 - min(MOST_WAITING, waiting)),  # at most what was waited: other causes have the rest
    )


def process_list(case: CaseView) -> Found | Absent | Suspected | None:
    """The list of busy processes, which decides only where they use half of the cores and decode is slow."""
    if isinstance(case.run.others_cpus, Known):
        return None
    cores, own = case.host.cores, case.runtime.process.pid.get()
    others = [p for p in case.machine.load.busiest.need() if own is None or own not in (p.pid, *p.parents)]
    if own is None and not case.narrative.is_report:  # the server is one of them
        server = case.host.perhaps_server(others)
        others = [p for p in others if p is not server]
    used, all_cores = sum(p.cpus for p in others), case.need("machine.cpu.physical_cores")
    words = f"other processes use {used:.1f} of {all_cores:g} cores"
    leave_room = case.placement.cpu_computes is False and used + FOR_A_GPU <= min(cores, all_cores)
    if used < OTHERS_SHARE * cores or leave_room:
        if case.narrative.is_report or case.speed.is_slow is False:
            return Absent(words)
        case.need("run.others_cpus")
    words = f"{words}: {_names(others)}"
    is_slow = case.placement.cpu_computes and case.narrative.blames("decode", "prefill")
    if own is None or used < CROWD_SHARE * cores or not is_slow:
        return Suspected(words, "run.others_cpus", ASK)
    return finding(case, words, "machine.load.busiest", cure=Cure(alone=True), fixes=[_change(others)])


def _harmless(case: CaseView, seen: OtherProcesses, cores: float, all_cores: float) -> Absent | Suspected | None:
    """Why what others used does not matter; None where it may."""
    others, perhaps = seen.cpus, seen.perhaps_own
    if case.placement.cpu_computes and OTHERS_SHARE * cores <= others < CROWD_SHARE * cores:
        case.need("runtime.compute.threads")
    threads = case.runtime.compute.threads.get()
    # So that they wait for each other; a software renderer has as many threads again
    crowd = (threads is not None and threads > case.host.cpus) or find_renderer(case.runtime) is not None
    # A process that always wants to run gets at most one thread's share beside the runtime's threads
    full_share = max(BUSY_PROCESS, FULL_SHARE * case.host.cpus / (1 + (1 if threads is None else threads)))
    takes_its_share = max((p.cpus for p in seen.processes if p.pid), default=0.0) >= full_share
    few = others < (CROWD_SHARE if crowd else OTHERS_SHARE) * cores and not (crowd and takes_its_share)
    if few and perhaps and not case.host.is_named_after(perhaps):
        words = f"{perhaps.name} (pid {perhaps.pid}) used {perhaps.cpus:.1f} of {all_cores:g} cores"
        return Suspected(f"{words}, and may or may not be the server's own process", "runtime.process.pid", OWN_ADDRESS)
    if others < OTHERS_SHARE * cores:
        return Absent(f"other processes used {others:.1f} of {all_cores:g} cores")
    if case.host.fills_its_cpus and others + case.host.own_cpus <= all_cores:
        words = f"others used {others:.1f} of {all_cores:g} cores and left enough free"
        return Absent(f"the runtime itself fills the {case.host.own_cpus:g} CPUs that it may use; {words}")
    if few:
        return Absent(f"the runtime's own threads outnumber the CPUs; others used {others:.1f} of {cores:g} cores")
    limits, throttled = case.host.cpu_limits.values(), case.run.cpu_throttled_fraction.get()
    if limits and throttled is not None and throttled >= STOPPED and others + min(limits) <= all_cores:
        words = f"others used {others:.1f} of {all_cores:g} cores and left enough free"
        return Absent(f"the CPU quota throttles the runtime; {words}")
    return None


def _who(case: CaseView, seen: OtherProcesses, cores: float) -> str:
    """Who used the CPUs, and how many of them."""
    stolen = case.host.stolen_cpus
    if stolen > seen.cpus / 2:
        return f"the hypervisor gave {stolen:.1f} of {cores:g} CPUs to other virtual machines during decode (steal)"
    # On a machine without an idle moment two looks at all processes are apart by more than a clock shows
    words = f"other processes used {min(seen.cpus, cores):.1f} of {cores:g} cores during decode"
    if named := _names(seen.processes):
        return f"{words}: {named}"
    unseen = "in other containers, or " if case.system.container else ""
    return f"{words} ({unseen}ended before they could be named)"


def _names(processes: list[BusyProcess]) -> str:
    return ", ".join(f"{p.name} (pid {p.pid}, {p.cpus:.1f})" for p in processes[:3] if p.pid)


def _change(processes: list[BusyProcess]) -> Change:
    """A lower priority for the busiest process that has one to lower; for other virtual machines, dedicated CPUs."""
    if processes and not any(process.pid for process in processes):
        return Knob.CAPACITY.to(None, "a virtual machine with dedicated CPUs, or one on another host")
    pids = [process.pid for process in processes if process.pid and process.nice < NICE]
    how = "stop it or move it" if processes and not pids else "stop it, move it or lower its priority"
    return Knob.OTHER_LOAD.to(next(iter(pids), None), how)


CAUSE = Cause(
    title="Other programs take the CPU",
    phase="decode",
    needs=all_of("run.others_cpus or machine.load.busiest", "machine.cpu.physical_cores"),
    routes=(Route("measured", cpus_of_others), Route("measured", process_list)),
    explains=("cpu_round_trip_bound", "client_overhead"),
    ask=ASK,
)
