"""Other programs take the CPU while tokens are generated.

## Why it is slow
The runtime's threads meet at a barrier after every operation. When one of them is put aside for another program, all
wait for it: a busy loop on every core costs far more than half the speed.

## How to confirm
While tokens are generated, other processes use CPUs that the runtime's threads want, and those threads spend time on
the run queue (`/proc/PID/task/*/schedstat`, or the pressure in `/proc/pressure/cpu`). Windows and macOS: Task Manager
or Activity Monitor, by CPU.

In a virtual machine the hypervisor may give its CPUs to others: `st` of `top`, or `steal` of `mpstat 1`.

## What it is not
Threads of the runtime that wait for one another: it has too many of them. Nor other programs on cores that the runtime
does not want.

## How to fix
On any runtime: stop or move the other work, lower its priority (`renice 19 PID`), or leave it a core: one thread fewer
than cores (llama.cpp `-t N`, Ollama `num_thread`). Against other virtual machines on the same host only CPUs of one's
own help: a dedicated plan, or another host.

## Safety
Answers do not change. This tool names the other programs and never touches them.
"""

import statistics

from unslow.facts.knob import Knob
from unslow.facts.machine import BusyProcess
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.bandwidth import cores_of, cpus_of, limits_of
from unslow.think.case.instructions import container_of
from unslow.think.case.narrative import blames, is_report
from unslow.think.case.placement import cpu_computes
from unslow.think.case.prediction import SLOWEST, Prediction
from unslow.think.case.slowness import each_rate, generates_slowly, predict_among_others
from unslow.think.case.waits import (
    OtherProcesses,
    client_s,
    completions_of,
    cpu_pressure,
    is_named_after,
    other_processes,
    stolen_cpus,
    threads_exceed_cpus,
    waiting_s,
    without_server,
)
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected
from unslow.think.causes._facts import ask_for, cite, cite_known

MOST_WAITING = 0.95  # Of the time: what waits for longer would be any number of times faster alone
STOPPED = 0.2  # Of the periods of a quota
WAITING_SHARE = 0.10  # Less waiting than this is what any desktop does to any program
CROWD_SHARE = 0.5
"""Of the cores: where the runtime's own threads are in each other's way, others must take this much to matter too."""
BUSY_PROCESS, FULL_SHARE = 0.3, 0.7
"""Of a CPU, and of what one more thread gets among the runtime's: what uses less sleeps most of the time."""
ALIKE = 0.9  # Of the longest delay before a first token: a scheduler spreads them further
OTHERS_SHARE = 0.10  # Of the cores: below it the waiting is the runtime's own doing, such as too many threads
NICE = 10
"""From here on a process has a tenth of the weight of an ordinary one (kernel/sched/core.c, sched_prio_to_weight)."""
FOR_A_GPU = 2  # Cores: one for the thread that gives a GPU its work, and one to answer


SHOW = "while it generates: {cpu_load}"
_GONE = "and ended before they could be named"

ITSELF = "`unslow` at the address of the server itself, not of what passes its answers on"


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the time spent waiting for a CPU against the time of a token, and see whether others had it."""
    if not isinstance(case.run.others_cpus, Known):
        return _by_list(case)
    seen, cores = other_processes(case), cores_of(case)
    if seen is None:
        return Suspected(
            "the server's own process is not known, so others can't be told from it", "runtime.pid", ITSELF
        )
    all_cores = case.machine.cpu.physical_cores.value_or(cores)  # it may be confined to some of them
    if cpu_pressure(case) is None:
        ask_for(case, "run.waiting_for_cpu_s_per_token", SHOW)
    each = each_rate(case)
    rate = each.value if isinstance(each, Known) else float(ask_for(case, "run.decode_tokens_per_s", SHOW))
    token_s = 1 / max(SLOWEST, rate)
    too_few = _too_few(case, seen, cores, all_cores)
    if too_few:
        return too_few
    prediction = predict_among_others(case)
    waiting = waiting_s(case, token_s, prediction if isinstance(prediction, Prediction) else None) / token_s
    if waiting < WAITING_SHARE:
        return Absent(f"others used {seen.cpus:.1f} cores, and waiting for them explains {waiting:.0%} of the time")
    of_a_token = f"{token_s:.4g} s for a token, all threads together"
    counted = cite_known(case, "run.waiting_for_cpu_s_per_token", reference=of_a_token)
    return Found(
        because=f"{_who(case, seen, all_cores)}; {waiting:.0%} of the time the runtime's threads waited for a CPU or "
        "for each other",
        evidence=(cite(case, "run.others_cpus", f"{all_cores:g} cores"), *counted),
        cure=Cure(alone=True),
        remedies=(_remedy(seen.processes),),
        explains=CAUSE.explains if _slows_the_client(case, waiting) else CAUSE.explains[:1],
        speedup=1 / (1 - min(MOST_WAITING, waiting)),  # no more than was waited: the rest is somebody else's
    )


def _who(case: Case, seen: OtherProcesses, cores: float) -> str:
    """Who took the processors, and how much of them."""
    stolen = stolen_cpus(case)
    if stolen > seen.cpus / 2:
        return (
            f"the hypervisor gave the time of {stolen:.1f} of {cores:g} CPUs to other virtual machines (steal) while "
            "tokens were generated"
        )
    named = _names(seen.processes)
    unseen = "in other containers, or ended before they could be named" if container_of(case) else _GONE
    words = f"other processes used {seen.cpus:.1f} of {cores:g} cores while tokens were generated"
    return f"{words}: {named}" if named else f"{words}, {unseen}"


def _too_few(case: Case, seen: OtherProcesses, cores: float, all_cores: float) -> Absent | Suspected | None:
    """Why what others used does not matter; None where it may."""
    others, perhaps = seen.cpus, seen.perhaps_own
    if cpu_computes(case) and OTHERS_SHARE * cores <= others < CROWD_SHARE * cores:
        ask_for(case, "runtime.threads", SHOW)
    crowd = threads_exceed_cpus(case)
    # One process that runs whenever it may gets no more than its share among so many threads of the runtime
    of_one = FULL_SHARE * cpus_of(case) / (case.runtime.threads.value_or(1) + 1)
    takes_its_share = max((p.cpus for p in seen.processes if p.pid), default=0.0) >= max(BUSY_PROCESS, of_one)
    few = others < (CROWD_SHARE if crowd else OTHERS_SHARE) * cores and not (crowd and takes_its_share)
    if few and perhaps and not is_named_after(case, perhaps):
        words = f"{perhaps.name} (pid {perhaps.pid}) used {perhaps.cpus:.1f} of {all_cores:g} cores"
        return Suspected(f"{words}, and may be the server's own process or another", "runtime.pid", ITSELF)
    if others < OTHERS_SHARE * cores:
        return Absent(f"other processes used {others:.1f} of {all_cores:g} cores")
    if few:
        return Absent(f"the runtime's own threads outnumber the CPUs; others used {others:.1f} of {cores:g} cores")
    limits, stopped = limits_of(case).values(), case.run.cpu_throttled_fraction.value_or(0.0) >= STOPPED
    if limits and stopped and others + min(limits) <= all_cores:
        return Absent(f"the CPU quota stops the runtime; others used {others:.1f} of {all_cores:g} cores and left room")
    return None


def _slows_the_client(case: Case, waiting: float) -> bool:
    """Whether what a client loses may be the same waiting: it has less to compute than the server, so it waits less.

    What is the same in every request is no waiting for a CPU, and behind a proxy nobody counts the runtime's own.
    """
    served, lost = [c.prefill_s + c.decode_s for c in completions_of(case)], client_s(case)
    if lost is None or not served:
        return True
    before = [c.client_first_token_s - c.prefill_s for c in completions_of(case) if c.client_first_token_s is not None]
    constant = len(before) > 1 and min(before) > ALIKE * max(before) and min(before) > lost / 2
    counted = isinstance(case.run.waiting_for_cpu_s_per_token, Known)
    return counted and not constant and lost <= waiting * statistics.median(served)


def _by_list(case: Case) -> Found | Absent | Suspected:
    """A list of busy processes decides only where others have half of the cores and somebody waits for tokens."""
    cores, own = cores_of(case), case.runtime.pid.value_or(None)
    others = [p for p in case.machine.load.busiest.need() if own is None or own not in (p.pid, *p.parents)]
    if own is None and not is_report(case):  # the server is one of them
        others = without_server(case, others)
    used = sum(p.cpus for p in others)
    all_cores = case.machine.cpu.physical_cores.value_or(cores)
    few = used < OTHERS_SHARE * cores or (cpu_computes(case) is False and used + FOR_A_GPU <= min(cores, all_cores))
    if few and (is_report(case) or generates_slowly(case) is False):
        return Absent(f"other processes use {used:.1f} of {all_cores:g} cores")
    if few:  # of another moment than that of the tokens
        ask_for(case, "run.others_cpus", SHOW)
    words = f"other processes use {used:.1f} of {all_cores:g} cores: {_names(others)}"
    if own is None or used < CROWD_SHARE * cores or not cpu_computes(case) or not blames(case, "decode", "prefill"):
        return Suspected(words, "run.others_cpus", SHOW)
    return Found(words, (cite(case, "machine.load.busiest"),), Cure(alone=True), (_remedy(others),))


def _names(processes: list[BusyProcess]) -> str:
    return ", ".join(f"{p.name} (pid {p.pid}, {p.cpus:.1f})" for p in processes[:3] if p.pid)


def _remedy(processes: list[BusyProcess]) -> Remedy:
    """Of the busiest one that still has a priority to lower; where all let others go first, only less of them helps.

    A process can be moved, another virtual machine can't.
    """
    if processes and not any(process.pid for process in processes):
        change = Knob.CAPACITY.to(None, "a virtual machine with CPUs of its own (dedicated), or one on another host")
        return Remedy(change, Cure(alone=True))
    pids = [process.pid for process in processes if process.pid and process.nice < NICE]
    how = "stop it or move it" if processes and not pids else "stop it, move it or lower its priority"
    return Remedy(Knob.OTHER_LOAD.to(next(iter(pids), None), how), Cure(alone=True))


CAUSE = Cause(
    title="Other programs take the CPU",
    phase="decode",
    needs=(("run.others_cpus", "machine.load.busiest"), "machine.cpu.physical_cores"),
    check=check,
    explains=("cpu_round_trip_bound", "client_overhead"),
    ask=SHOW,
)
