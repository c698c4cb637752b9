"""Other programs take the CPU while tokens are generated.

## Why it is slow
The runtime's threads meet at a barrier after every operation. When one of them is put aside for another program, all
wait for it: a busy loop on every core costs far more than half the speed.

## How to confirm
While tokens are generated, other processes use CPUs that the runtime's threads want, and those threads spend time on
the run queue (`/proc/PID/task/*/schedstat`, or the pressure in `/proc/pressure/cpu`). Threads of the runtime that wait
for one another are another matter: it has too many of them.

## How to fix
On any runtime: stop or move the other work, lower its priority (`renice 19 PID`), or leave it a core: one thread fewer
than cores (llama.cpp `-t N`, Ollama `num_thread`).

## Safety
Answers do not change. This tool names the other programs and never touches them.
"""

from unslow.facts.knob import Knob
from unslow.facts.machine import BusyProcess
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.bandwidth import cores_of
from unslow.think.adapt.cpu_limits import limits_of
from unslow.think.adapt.experiments import blames
from unslow.think.adapt.who_computes import cpu_computes
from unslow.think.adapt.work import Cure
from unslow.think.causes._asking import ask_for
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
from unslow.think.contention import crowded, pressure, waiting_s
from unslow.think.predict import SLOWEST, Prediction, predict
from unslow.think.report import Evidence

MOST_WAITING = 0.95
STOPPED = 0.2
"""Of the periods of a quota."""
WAITING_SHARE = 0.10
"""Less waiting than this is what any desktop does to any program."""
CROWD_SHARE = 0.5
"""Of the cores: where the runtime's own threads are in each other's way, others must take this much to matter too."""
OTHERS_SHARE = 0.10
"""Of the cores: below it the waiting is the runtime's own doing, such as too many threads."""


SHOW = "while it generates: `top -b -n 1 | head -15; cat /proc/pressure/cpu`"


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the time spent waiting for a CPU against the time of a token, and see whether others had it."""
    return _by_waiting(case) if isinstance(case.run.others_cpus, Known) else _by_list(case)


def _by_waiting(case: Case) -> Found | Absent:
    others, cores = case.run.others_cpus.need(), cores_of(case)
    all_cores = case.machine.cpu.physical_cores.value_or(cores)  # it may be confined to some of them
    if pressure(case) is None:
        ask_for(case, "run.waiting_for_cpu_s_per_token", SHOW)
    token_s = 1 / max(SLOWEST, ask_for(case, "run.decode_tokens_per_s", SHOW))
    if others < OTHERS_SHARE * cores:
        return Absent(f"other processes used {others:.1f} of {all_cores:g} cores")
    if crowded(case) and others < CROWD_SHARE * cores:
        return Absent(f"the runtime's own threads outnumber the CPUs; others used {others:.1f} of {cores:g} cores")
    if _is_stopped(case) and others + min(limits_of(case).values()) <= all_cores:
        return Absent(f"the CPU quota stops the runtime; others used {others:.1f} of {all_cores:g} cores and left room")
    prediction = predict(case)
    waiting = waiting_s(case, token_s, prediction if isinstance(prediction, Prediction) else None) / token_s
    if waiting < WAITING_SHARE:
        return Absent(f"others used {others:.1f} cores, and waiting for them explains {waiting:.0%} of the time")
    busiest = case.run.busiest_others
    named = _names(busiest.value_or([]))
    return Found(
        because=f"other processes used {others:.1f} of {all_cores:g} cores while tokens were generated"
        + (f": {named}" if named else ", and ended before they could be named")
        + f"; {waiting:.0%} of the time the runtime's threads waited for a CPU or for each other",
        evidence=(cite(case, "run.others_cpus", f"{all_cores:g} cores"), *_waited(case, token_s)),
        cure=Cure(alone=True),
        remedies=(_remedy(_first_pid(busiest)),),
        speedup=1 / (1 - min(MOST_WAITING, waiting)),  # no more than was waited: the rest is somebody else's
    )


def _waited(case: Case, token_s: float) -> tuple[Evidence, ...]:
    """The count of the runtime's own waiting, where there is one."""
    if not isinstance(case.run.waiting_for_cpu_s_per_token, Known):
        return ()
    return (cite(case, "run.waiting_for_cpu_s_per_token", f"{token_s:.4g} s for a token, all threads together"),)


def _is_stopped(case: Case) -> bool:
    """Whether a quota stops its threads so often that this is what they wait for."""
    stopped = case.run.cpu_throttled_fraction
    return isinstance(stopped, Known) and stopped.value >= STOPPED and bool(limits_of(case))


def _by_list(case: Case) -> Found | Absent | Suspected:
    """A list of busy processes decides only where others have half of the cores and somebody waits for tokens."""
    cores, own = cores_of(case), case.runtime.pid.value_or(None)
    others = [p for p in case.machine.load.busiest.need() if p.pid != own]
    used = sum(p.cpus for p in others)
    if used < OTHERS_SHARE * cores:
        return Absent(f"other processes use {used:.1f} of {cores:g} cores")
    if cpu_computes(case) is False:
        return Absent("all layers are on the GPU: the CPU has next to nothing to do")
    all_cores = case.machine.cpu.physical_cores.value_or(cores)
    words = f"other processes use {used:.1f} of {all_cores:g} cores: {_names(others)}"
    if own is None or used < CROWD_SHARE * cores or not cpu_computes(case) or not blames(case, "decode", "prefill"):
        return Suspected(words, "run.others_cpus", SHOW)
    return Found(words, (cite(case, "machine.load.busiest"),), Cure(alone=True), (_remedy(others[0].pid),))


def _names(processes: list[BusyProcess]) -> str:
    return ", ".join(f"{p.name} (pid {p.pid}, {p.cpus:.1f})" for p in processes[:3] if p.pid)


def _remedy(pid: int | None) -> Remedy:
    return Remedy(Knob.OTHER_LOAD.to(pid, "stop it, move it or lower its priority"), Cure(alone=True))


def _first_pid(busiest: object) -> int | None:
    return busiest.value[0].pid if isinstance(busiest, Known) and busiest.value else None


CAUSE = Cause(
    title="Other programs take the CPU",
    phase="decode",
    needs=(("run.others_cpus", "machine.load.busiest"), "machine.cpu.physical_cores"),
    check=check,
    explains=("cpu_round_trip_bound", "client_overhead"),
    ask=SHOW,
)
